"""One worker's part of a run: all operators of the plan over its share of the rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pkray import spans
from pkray.format.data_file import DataFileMeta
from pkray.relational.continuous.changes import Changes, Order, concatenated, netted, updates
from pkray.relational.continuous.exchange.peers import Peers, workers_of
from pkray.relational.continuous.feeds.backfill import Backfill
from pkray.relational.continuous.feeds.beginnings import Beginning
from pkray.relational.continuous.feeds.feeds import Feeds
from pkray.relational.continuous.feeds.table_rows import TableRows
from pkray.relational.continuous.graph import Graph
from pkray.relational.continuous.log.log import NOTHING_YET, Checkpoint, EpochRecord
from pkray.relational.continuous.operator import Epoch, SourceRows
from pkray.relational.continuous.outlets.table_parts import TablePart
from pkray.relational.continuous.state.states import Files, States
from pkray.relational.continuous.watermarks import LAST_WATERMARK
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.keys import best_key, unique_keys, upsert_keys
from pkray.relational.plan.nodes import Node, Normalize, Scan
from pkray.relational.plan.source import Source
from pkray.relational.sources.table import TableSource

_ARRIVALS = 1 << 32
"""Rows of an epoch that arrival numbers tell apart."""


@dataclass(frozen=True)
class RunnablePlan:
    """A physical plan, ready to run.

    Attributes:
        roots: one an outlet.
        before: of each root, whether its outlet needs the rows before updates.
        ttl: of state for which neither hint nor plan says another.
        ttls: as the compiled plan says them, by a node's number.
        digest: tells plans apart.
        beginnings: of the sources of which not everything is read first; None: as it is now.
        backfill: what another engine brings for the first epoch; None: nothing.
    """

    roots: tuple[Node, ...]
    before: tuple[bool, ...]
    ttl: str = "0 ms"
    ttls: Mapping[int, Sequence[str]] | None = None
    digest: str = ""
    beginnings: Mapping[str, Beginning] | None = None
    backfill: Backfill | None = None


@dataclass(frozen=True)
class Assignment:
    """Gives a worker what it begins a run with.

    Attributes:
        run: its number; greater than those of the runs before.
        number, count: of the worker, and of all.
        files: of this worker's share of the states at the checkpoint.
        to_deal: of states that another number of workers held, the files that this one deals out,
            by the number of the worker that wrote them.
        watermarks: of the sources at the checkpoint.
        folders: of states whose files lie in a folder that is not called as they are.
    """

    run: int
    number: int
    count: int
    files: Files
    to_deal: Mapping[str, Mapping[int, Sequence[DataFileMeta]]]
    watermarks: Mapping[str, int]
    folders: Mapping[str, str]


def assignments(run: int, count: int, checkpoint: Checkpoint | None) -> list[Assignment]:
    """Deal the shares of a checkpoint to workers: each its own, or some to deal out.

    Args:
        checkpoint: None before the first.
    """
    found = checkpoint or NOTHING_YET
    moved = [name for name in found.files if found.workers_of(name) != count]
    return [
        Assignment(
            run,
            number,
            count,
            {name: files for name, files in _share(found, number).items() if name not in moved},
            {
                name: {
                    place: share.get(name, ())
                    for place, share in enumerate(found.shares)
                    if place % count == number
                }
                for name in moved
            },
            found.watermarks,
            found.folders,
        )
        for number in range(count)
    ]


def _share(found: Checkpoint, number: int) -> Files:
    return found.shares[number] if number < len(found.shares) else {}


class Share:
    """Takes the changes of each epoch through a worker's operators. For one thread.

    Args:
        plan: the same in all workers.
        states: opens the states of this worker.
        assigned: what it begins with.
        skips: whether rows that cannot be computed are left out, and kept aside.
        max_rows: most changed rows of a table that an epoch takes; None: no bound.
    """

    def __init__(
        self,
        plan: RunnablePlan,
        states: States,
        peers: Peers,
        assigned: Assignment,
        *,
        skips: bool = False,
        max_rows: int | None = None,
    ) -> None:
        self.plan = plan
        self.states = states
        self.peers = peers
        states.begin(assigned.files, assigned.folders, peers.number)
        self._rows: dict[TableSource, TableRows] = {}
        self.graph = Graph(
            plan.roots, plan.before, states.open, plan.ttl, plan.ttls, self._rows_of, skips, peers
        )
        self.graph.go_on_at(assigned.watermarks)
        self.feeds = Feeds(self.graph.scans, max_rows, peers.number, peers.count)
        self.net_keys = [best_key(root, upsert_keys(root)) for root in plan.roots]
        self._unique_keys = [best_key(root, unique_keys(root)) for root in plan.roots]
        self.orders = [
            _order(root, before=before)
            for root, before in zip(plan.roots, plan.before, strict=True)
        ]
        for name, shares in sorted(assigned.to_deal.items()):
            self._deal(name, shares)

    def _rows_of(self, source: Source) -> SourceRows | None:
        """Give the rows of a keyed table by key, as of the epoch that runs."""
        if not isinstance(source, TableSource):
            return None
        return self._rows.setdefault(source, TableRows(source))

    def run(
        self, record: EpochRecord, results: Sequence[TablePart | None] = ()
    ) -> Iterator[tuple[list[Changes], Epoch]]:
        """Run an epoch.

        Args:
            results: of each root, the table to which each worker pushes its part; None, or left
                out: all is the first worker's.

        Yields:
            of each of its parts the changes of each root that are this worker's, net; the last part
            ends the epoch.
        """
        for source, rows in self._rows.items():
            rows.move(record.bounds[self.feeds.name_of(source)])
        arrival = record.number * _ARRIVALS
        for changes in spans.each("read", self._parts(record)):
            part = Epoch(record.number, record.time, arrival)
            with self.states.in_flight(_bytes_of((changes or {}).values())):
                with spans.span("compute"):
                    made = self._given(self.graph.run(changes or {}, part), results)
                with self.states.in_flight(_bytes_of(made)):
                    yield made, part
                    self.states.fit()
            arrival += self.graph.most_rows
        epoch = Epoch(record.number, record.time, arrival)
        idle = self.feeds.scans_of(record.idle)
        made = self.graph.advance(epoch, is_last=record.is_last, idle=idle)
        yield self._given(made, results), epoch
        self.states.fit()

    def net(self, place: int, changes: Changes) -> Changes:
        """Leave the net changes of a root; a row that takes another one's key is an update.

        Args:
            changes: of all workers, and of all parts of an epoch that are given as one.
        """
        key, unique = self.net_keys[place], self._unique_keys[place]
        net = netted(changes, key, self.orders[place])
        return net if unique is None or unique == key else updates(net, unique)

    def _parts(self, record: EpochRecord) -> Iterator[dict[int, Changes] | None]:
        backfill = self.plan.backfill if record.number == 0 else None
        if backfill is None:
            parts = self.feeds.read(record.bounds)
        else:
            parts = backfill.read(self.feeds, self.peers.number, self.peers.count)
        return parts if self.peers.is_alone else self.peers.in_step(parts)

    def _given(self, made: Sequence[Changes], results: Sequence[TablePart | None]) -> list[Changes]:
        """Bring the changes of the roots to the workers that give them."""
        if self.peers.is_alone:
            return [*made]
        return [
            self._brought(place, changes, results[place] if results else None)
            for place, changes in enumerate(made)
        ]

    def _brought(self, place: int, changes: Changes, result: TablePart | None) -> Changes:
        fields, key = self.plan.roots[place].fields, self.net_keys[place]
        order = self.orders[place]
        own = netted(changes, key, order)
        if result is None:
            return _united(fields, self.peers.gather(own), key, order)
        brought = self.peers.exchange(own, result.rows.keys(own), fields)
        return _united(fields, [brought], key, order)

    def _deal(self, name: str, shares: Mapping[int, Sequence[DataFileMeta]]) -> None:
        """Give each worker the rows of its keys, of a state that others wrote."""
        state = self.states.opened.get(name)
        if state is None:  # nothing reads it any more
            return
        for rows in self.peers.in_step(self.states.stored(name, shares)):
            found: Sequence[Any] = [None] * self.peers.count
            if rows is not None and state.spec.is_everywhere:
                found = [rows] * self.peers.count
            elif rows is not None:
                workers = workers_of(self.graph.exchanged_by(name, rows), self.peers.count)
                found = [
                    rows.take(np.flatnonzero(workers == each)) for each in range(self.peers.count)
                ]
            for part in self.peers.swap(found):
                if part is not None and part.num_rows:
                    state.restore(part)
            self.states.fit()

    def nodes(self) -> list[dict[str, Any]]:
        """Say what each operator did, and in epoch milliseconds how far event time is at it."""
        marks = self.graph.watermarks()
        return [
            {
                "id": stage.number,
                "type": type(stage.node).__name__,
                "rows_in": stage.rows_in,
                "rows_out": stage.rows_out,
                "seconds": round(stage.seconds, 6),
                "watermark": _millis(marks.get(str(stage.number))),
                "late": {name: rows.count for name, rows in stage.late.items()},
                "state_bytes": {name: state.memory_bytes for name, state in stage.states.items()},
                "state_rows": {name: state.rows for name, state in stage.states.items()},
                "state_file_bytes": {
                    name: state.file_bytes for name, state in stage.states.items()
                },
            }
            for stage in self.graph.stages
        ]

    def close(self) -> None:
        """Drop what no checkpoint has: it is computed again."""
        self.states.close()


def _millis(watermark: int | None) -> int | None:
    """Give microseconds as milliseconds; None at the end of all sources, which is no time."""
    return None if watermark is None or watermark >= LAST_WATERMARK else watermark // 1000


def summed(workers: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Add up what the operators of several workers did, as `Share.nodes` tells it."""
    first, *others = workers
    for nodes in others:
        first = [_added(one, other) for one, other in zip(first, nodes, strict=True)]
    return first


def _added(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {name: _sum(name, value, other.get(name)) for name, value in one.items()}


_SAME = ("id", "watermark")
"""Name what the workers of a query have in common."""


def _sum(name: str, one: Any, other: Any) -> Any:
    if isinstance(one, dict):
        return _added(one, other)
    if isinstance(one, float):
        return round(one + other, 6)
    return one + other if isinstance(one, int) and name not in _SAME else one


def _bytes_of(changes: Iterable[Changes]) -> int:
    return sum(each.nbytes for each in changes)


def _order(root: Node, *, before: bool) -> Order:
    """Say how the changes of a key follow one another at a root.

    Args:
        before: whether rows before updates are told.
    """
    if before or any(node.moves_rows() for node in root.walk()):
        return Order.MOVING
    return Order.REPLACING if _replaces(root) else Order.KEPT


def _replaces(node: Node) -> bool:
    """Whether rows that are added may replace others, as nothing completes an upsert source."""
    if isinstance(node, Scan):
        return node.source.mode == "upsert"
    return not isinstance(node, Normalize) and any(map(_replaces, node.inputs))


def _united(
    fields: Fields, parts: Sequence[Changes], key: Sequence[str] | None, order: Order
) -> Changes:
    """Join the net changes of several workers to net changes.

    Of a key that moved from one worker to another, one retracts the old row and another adds the
    new one: retractions go first. Without a key rows cancel in any order.
    """
    joined = concatenated(fields, parts)
    if key is not None:
        joined = joined.take(np.argsort(joined.adds, kind="stable"))
    return netted(joined, key, order)
