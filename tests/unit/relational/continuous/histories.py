"""Run a query's operators over histories in memory, and compare with the bounded run."""

import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from pkray.api.inputs import Changelog
from pkray.clock import now_millis
from pkray.columns.batches import batch_of
from pkray.format.data_file import DataFileMeta
from pkray.lookup import cached_file
from pkray.lookup.local_file_cache import CopyLimits
from pkray.lookup.store import LookupStore
from pkray.relational import Relation, from_arrow
from pkray.relational.continuous.changes import Changes, concatenated
from pkray.relational.continuous.graph import Graph
from pkray.relational.continuous.operator import Epoch, RowsOf, no_rows
from pkray.relational.continuous.state.state import State, StateSpec
from pkray.relational.optimizer import optimize
from pkray.relational.plan.nodes import Aggregate, Node, Scan, Values
from pkray.relational.plan.physical import to_logical, to_physical
from pkray.relational.plan.slicing import without_slices
from pkray.relational.running import run
from pkray.relational.sources.changelog import ROW_KIND
from pkray.schema.row_kind import SHORT, parse
from pkray.storage.opening import open_store

Row = tuple[Any, ...]


class Continuous:
    """The operators of one query, fed epoch by epoch.

    Args:
        memory: bytes of each state before it goes to files: little, so that files are met.
        parts: in so many calls each epoch is given to the graph.
        cached: bytes of rows that all states together keep in memory between epochs, to find them
            faster; None: they keep none.
        twice: whether changes may come twice.
    """

    def __init__(
        self,
        relation: Relation,
        sources: Mapping[str, Changelog],
        *,
        ttl: str = "0 ms",
        before: bool = True,
        memory: int = 64 << 10,
        parts: int = 1,
        rows_of: RowsOf = no_rows,
        cached: int | None = None,
        twice: bool = False,
    ) -> None:
        self.relation = relation
        self.sources = sources
        self.parts = parts
        self.twice = twice
        self.folder = tempfile.TemporaryDirectory()
        limits = CopyLimits(1 << 30, 1 << 26, 3_600_000)
        self._lookups = LookupStore(f"{self.folder.name}/lookups", limits, clock=now_millis)
        self._memory = memory
        self._cached = cached
        self.states: dict[str, State] = {}
        self._files: dict[str, Sequence[DataFileMeta]] = {}
        plan = optimize(relation.plan)
        self.plan = to_physical(plan, before=before, by_key=not before, duplicates=twice)
        self._graph = lambda: Graph([self.plan], [before], self._open, ttl, rows_of=rows_of)
        self.graph = self._graph()
        self.fields = self.plan.fields
        self.epoch = 0
        self.content: Counter[Row] = Counter()
        self._taken = dict.fromkeys(sources, 0)

    def _open(self, name: str, spec: StateSpec, ttl: int) -> State:
        store = open_store(f"{self.folder.name}/{name}")
        room = None if self._cached is None else self._cache_room
        files = self._files.get(name, ())
        state = State(
            spec, store, self._lookups, files, memory=self._memory, ttl=ttl, cache_room=room
        )
        self.states[name] = state
        return state

    def restart(self) -> None:
        """Go on from files, as another process would."""
        self._files = {name: state.checkpoint() for name, state in self.states.items()}
        watermarks = self.graph.watermarks()
        self.graph = self._graph()
        self.graph.go_on_at(watermarks)

    def _cache_room(self) -> int:
        return (self._cached or 0) - sum(each.cache_bytes for each in self.states.values())

    def push(self, source: str, rows: Sequence[Mapping[str, Any]], time: int = 0) -> Changes:
        """Give one source an epoch, and run it."""
        self.sources[source].push(list(rows))
        return self.run(time)

    def run(self, time: int = 0, *, is_last: bool = False) -> Changes:
        """Run what was pushed since as one epoch.

        Args:
            is_last: nothing more comes: whatever waits for event time comes.
        """
        arrived = {name: self._arrived(each) for name, each in self.sources.items()}
        made = []
        for part in range(self.parts):
            changes = {
                number: self._of_scan(node, arrived, part)
                for number, node in self.graph.scans.items()
            }
            arrival = (self.epoch << 32) + (part << 24)
            made += self.graph.run(changes, Epoch(self.epoch, time, arrival))
            for state in self.states.values():
                state.shrink_cache((self._cached or 0) // len(self.states))
        arrival = (self.epoch << 32) + (self.parts << 24)
        made += self.graph.advance(Epoch(self.epoch, time, arrival), is_last=is_last)
        self.epoch += 1
        result = concatenated(self.fields, made)
        self._replay(result)
        return result

    def finish(self) -> Changes:
        """End the sources: everything that waits comes."""
        return self.run(is_last=True)

    def late_rows(self) -> list[Row]:
        """List the added rows that were left out as late."""
        return [row for name in self.late for row in self.late_of(name)]

    def held_rows(self) -> int:
        """Count the rows of all states but those of late rows."""
        held = [state for name, state in self.states.items() if not name.startswith("late_")]
        return sum(batch.num_rows for each in held for batch in each.batches())

    def _arrived(self, changelog: Changelog) -> pa.Table:
        name = next(name for name, each in self.sources.items() if each is changelog)
        epochs = changelog.source.epochs[self._taken[name] :]
        self._taken[name] = len(changelog.source.epochs)
        empty = changelog.source.fields.arrow.empty_table()
        return pa.concat_tables(
            epochs or [empty.append_column(ROW_KIND, pa.chunked_array([[]], pa.string()))]
        )

    def _of_scan(self, node: Node, arrived: Mapping[str, pa.Table], part: int) -> Changes:
        if isinstance(node, Values):
            return Changes.none(node.fields)
        assert isinstance(node, Scan)
        table = arrived[next(n for n, each in self.sources.items() if each.source is node.source)]
        size = -(-table.num_rows // self.parts)
        rows = table.slice(part * size, size).combine_chunks()
        if not rows.num_rows:
            return Changes.none(node.fields)
        kinds = parse(rows.column(ROW_KIND), ROW_KIND).to_numpy()
        columns = [rows.column(name) for name in node.fields.names]
        return Changes(batch_of(columns, node.fields.arrow, rows.num_rows), kinds)

    def _replay(self, changes: Changes) -> None:
        for row, sign in zip(rows_of(changes.rows), changes.signs, strict=True):
            self.content[row] += int(sign)
        wrong = [row for row, count in self.content.items() if count < 0]
        assert not wrong, f"{wrong[:5]} are retracted and were not there"
        self.content = +self.content

    @property
    def late(self) -> dict[str, State]:
        """List the states of late rows, by name."""
        return {name: each for name, each in self.states.items() if name.startswith("late_")}

    def late_of(self, name: str) -> list[Row]:
        """List added late rows of an input of an operator, by the name of their state."""
        tables = [pa.Table.from_batches([batch]) for batch in self.late[name].batches()]
        added = [each.filter(each.column("_added")) for each in tables]
        return [row for each in added for row in rows_of(each.drop_columns(_OF_LATE))]

    def kept_rows(self) -> dict[str, int]:
        """Count the rows of each state that has any, but for late ones."""
        states = {
            name: state for stage in self.graph.stages for name, state in stage.states.items()
        }
        counts = {
            name: sum(batch.num_rows for batch in state.batches()) for name, state in states.items()
        }
        return {name: count for name, count in counts.items() if count}

    def check_without_late(self) -> None:
        """Compare the changes with the bounded run, from which late rows are taken out."""
        root = self.graph.stages[-1].node
        bounded = Counter(rows_of(_ran(self._without_late(root))))
        missing, extra = bounded - self.content, self.content - bounded
        assert not missing + extra, f"missing {list(missing)[:5]}, extra {list(extra)[:5]}"

    def _without_late(self, node: Node) -> Node:
        numbers = {id(stage.node): stage.number for stage in self.graph.stages}
        number = numbers.get(id(node))
        if isinstance(node, Aggregate):
            node = without_slices(node)
        inputs = [self._without_late(each) for each in node.inputs]
        if node.judges_lateness():
            names = [f"late_{number}{f'_{i}' if i else ''}" for i in range(len(inputs))]
            inputs = [
                _less(_ran(each), self.late_of(name))
                for each, name in zip(inputs, names, strict=True)
            ]
        return node.with_inputs(*inputs) if inputs else node

    def check(self) -> None:
        """Compare the changes so far, replayed, with the bounded run over the sources' content."""
        bounded = Counter(rows_of(self._bounded()))
        missing, extra = bounded - self.content, self.content - bounded
        assert not missing + extra, f"missing {list(missing)[:5]}, extra {list(extra)[:5]}"

    def _bounded(self) -> pa.Table:
        return _ran(self.plan) if self.twice else self.relation.to_arrow(engine="local")


@contextmanager
def hashes_alike() -> Iterator[None]:
    """Keep four bits of the hashes by which keys are found in copies of files, so that many keys
    have the same one.
    """
    filter_hashes = cached_file.filter_hashes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cached_file, "filter_hashes", lambda keys: filter_hashes(keys) & 15)
        yield


_OF_LATE = ["_key", "_epoch", "_watermark", "_added"]
"""What is kept of late rows beside their columns."""


def _ran(node: Node) -> pa.Table:
    batches = list(run(to_logical(node)))
    return pa.Table.from_batches(batches, node.fields.arrow)


def _less(rows: pa.Table, late: Sequence[Row]) -> Node:
    """Take rows out, each once."""
    out = Counter(late)
    kept = []
    for place, row in enumerate(rows_of(rows)):
        if out[row]:
            out[row] -= 1
        else:
            kept.append(place)
    assert not +out, f"late rows that were never there: {list(+out)[:5]}"
    return from_arrow(rows.take(pa.array(kept, pa.int64()))).plan


def rows_of(table: pa.Table | pa.RecordBatch) -> list[Row]:
    """Give rows as tuples that can be counted; floats that differ in the last bits are equal."""
    names = table.schema.names
    return [tuple(_plain(row[name]) for name in names) for row in table.to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if value != value else float(f"{value:.9g}")
    if isinstance(value, list):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return tuple((name, _plain(each)) for name, each in value.items())
    return value


def kinds_of(changes: Changes) -> list[tuple[str, Row]]:
    """Give changes as pairs of kind and row."""
    pairs = zip(changes.kinds, rows_of(changes.rows), strict=True)
    return [(SHORT[kind], row) for kind, row in pairs]


class RandomHistory:
    """Random changes of one table: inserts, updates (-U, +U), deletes, moves of keys.

    Args:
        make: a random row of the table; its first column counts up where `keyed`.
        keyed: rows have a unique first column; else equal rows occur.
    """

    def __init__(self, rng: random.Random, make: Any, *, keyed: bool = False) -> None:
        self._rng = rng
        self._make = make
        self._keyed = keyed
        self._next = 0
        self.rows: list[dict[str, Any]] = []

    def epoch(self, size: int, *, inserts: bool = False) -> list[dict[str, Any]]:
        """Make the changes of one epoch.

        Args:
            inserts: insert only.
        """
        changes: list[dict[str, Any]] = []
        for _ in range(size):
            choice = self._rng.random()
            if inserts or not self.rows or choice < 0.5:
                changes.append({**self._insert(), ROW_KIND: "+I"})
                continue
            place = self._rng.randrange(len(self.rows))
            old = self.rows[place]
            if choice < 0.75:
                new = self._make(self._rng)
                if self._keyed:
                    first = next(iter(old))
                    new[first] = old[first]
                self.rows[place] = new
                changes += [{**old, ROW_KIND: "-U"}, {**new, ROW_KIND: "+U"}]
            else:
                self.rows.pop(place)
                changes.append({**old, ROW_KIND: "-D"})
        return changes

    def _insert(self) -> dict[str, Any]:
        row = self._make(self._rng)
        if self._keyed:
            row[next(iter(row))] = self._next
            self._next += 1
        self.rows.append(row)
        return row
