"""Random histories of tables of every merge engine and changelog producer, against plain Python.

Contents at every snapshot, lookups in both visibilities, and what the changelog says.
"""

import shutil
import tempfile
from collections import defaultdict
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import pkray
from tests.effort import examples
from tests.integration.engine_models import ADDS, MODELS, Change, Model, Values
from tests.integration.readers import read_with_rust

CASES = [
    (name, producer, sequence)
    for name, model in MODELS.items()
    for producer in model.producers
    for sequence in ((False, True) if model.ordered_columns else (False,))
]
Key = tuple[str, int]
Content = dict[Key, Values]

TEXTS = ("", "a", "b", "a longer text than any other")
ROW = st.tuples(
    st.integers(0, 59), st.sampled_from(["x", "y=/z"]), st.integers(0, 7), st.integers(-6, 6)
)

STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 2**32 - 1), st.lists(ROW, min_size=1, max_size=25)),
    st.sampled_from(
        [("commit", False), ("commit", False), ("commit", True), ("compact", False),
         ("compact", True), ("abort",), ("reopen",)]
    ),
)  # fmt: skip


class History:
    """A table beside everything that was written to it."""

    def __init__(
        self, model: Model, producer: str, sequence: bool, choices: dict[str, str]
    ) -> None:
        self.model = model
        self.producer = producer
        self.sequence = sequence
        self.drops_equal = choices.get("changelog-producer.row-deduplicate") == "true"
        self.columns = tuple(model.ordered_columns or () if sequence else model.columns)
        self.merge = partial(model.merge, self.columns)
        self.folder = tempfile.mkdtemp()
        options = {"changelog-producer": producer, **model.options, **choices}
        for key in model.options:
            if key.startswith("fields.") and key.split(".")[1] not in self.columns:
                del options[key]
        if sequence:
            options["sequence.field"] = "q"
            options["changelog-producer.row-deduplicate-ignore-fields"] = "q"
        columns = [("p", "STRING NOT NULL"), ("k", "INT NOT NULL")]
        columns += [(name, model.columns[name]) for name in self.columns]
        columns += [("q", "INT")] if sequence else []
        with pkray.connect(self.folder) as catalog:
            catalog.create_table("db.t", columns, ["p", "k"], ["p"], options)
        self.identifier = 0
        self.committed: dict[Key, list[Change]] = defaultdict(list)
        self.pending: list[tuple[Key, Change]] = []
        self.images: dict[Key, Values] = {}
        self.applied = 0
        self.seen: dict[int, Content] = {}
        self._open()

    def run(self, steps: list[Any]) -> None:
        for step in [*steps, ("commit", False), ("commit", True)]:
            what, *arguments = step
            getattr(self, what)(*arguments)
            self._check_lookups()
        for snapshot, content in self.seen.items():
            assert self._content(self.table.to_arrow(snapshot_id=snapshot)) == content, snapshot
        if self.seen:
            assert self._content(read_with_rust(self.folder, "db.t")) == self._expected([])

    def write(self, seed: int, drawn: list[Any]) -> None:
        rows = []
        for number, (choice, partition, number_of_key, offset) in enumerate(drawn):
            key = partition, number_of_key
            earlier = self.committed[key] + [c for k, c in self.pending if k == key]
            kind = self.model.kinds[choice % len(self.model.kinds)]
            if self.model.known_only and not earlier:
                kind = "+I"
            values = tuple(
                self._value(name, (seed >> place) + number * 7 + choice)
                for place, name in enumerate(self.columns)
            )
            change = Change(kind, self._sequence(earlier, kind, offset), values)
            self.pending.append((key, change))
            ordering = (change.sequence,) if self.sequence else ()
            rows.append((*key, *values, *ordering, kind))
        names = [*self.table.arrow_schema.names, "kind"]
        fields = [*self.table.arrow_schema, pa.field("kind", pa.string())]
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(zip(*rows, strict=True), fields, strict=True)
        ]
        self.writer.write(pa.table(arrays, names=names), row_kinds="kind")

    def commit(self, full: bool) -> None:
        self.identifier += 1
        newest = self._newest()
        self.writer.commit(self.identifier, full_compact=full)
        written, self.pending = self.pending, []
        for key, change in written:
            self.committed[key].append(change)
        self._check_changes(newest + 1, written, full)

    def compact(self, full: bool) -> None:
        newest = self._newest()
        self.table.compact(full=full)
        self._check_changes(newest + 1, [], full)

    def abort(self) -> None:
        self.writer.abort()
        self.pending = []

    def reopen(self) -> None:
        self.close()
        self.pending = []
        self._open()

    def close(self) -> None:
        self.catalog.close()

    def _open(self) -> None:
        self.catalog = pkray.connect(self.folder)
        self.table = self.catalog.load_table("db.t")
        self.writer = self.table.open_writer("history")

    def _value(self, name: str, draw: int) -> Any:
        if draw % 5 == 0 and not self.sequence and name not in self.model.never_null:
            return None
        return TEXTS[draw % 4] if self.model.columns[name] == "STRING" else draw % 13 - 4

    def _sequence(self, earlier: list[Change], kind: str, offset: int) -> int:
        """Late rows too, but not after a delete: that it was there may be forgotten."""
        newest = max((change.sequence for change in earlier), default=0)
        if kind not in ADDS or any(not change.adds for change in earlier):
            return newest + 1 + abs(offset)
        return newest + offset

    def _expected(self, pending: list[tuple[Key, Change]]) -> Content:
        content = {}
        changes = {key: list(of) for key, of in self.committed.items()}
        for key, change in pending:
            changes.setdefault(key, []).append(change)
        for key, of in changes.items():
            row = self.merge(self._in_order(of)) if of else None
            if row is not None:
                content[key] = row
        return content

    def _in_order(self, changes: list[Change]) -> list[Change]:
        return sorted(changes, key=lambda c: c.sequence) if self.sequence else changes

    def _check_lookups(self) -> None:
        keys = pa.table(
            [["x", "y=/z"] * 8, pa.array([n // 2 for n in range(16)], pa.int32())], names=["p", "k"]
        )
        for visibility, pending in (("latest", self.pending), ("committed", [])):
            found = self._content(self.table.lookup(keys, visibility=visibility))
            assert found == self._expected(pending), visibility

    def _check_changes(self, first: int, written: list[tuple[Key, Change]], full: bool) -> None:
        newest = self._newest()
        content = self._expected([])
        assert self._content(self.table.to_arrow()) == content
        if newest < first:
            assert not written
            return
        self.seen[newest] = content
        table = self.table.changelog(first, newest)
        kinds = table.column("_row_kind").to_pylist()
        changes = list(zip(kinds, self._rows(table), strict=True))
        if self.producer in ("lookup", "full-compaction"):
            self._apply(changes)
            if full or self.producer == "lookup":
                assert self.images == content
        elif self.producer == "input":
            assert _by_key(changes, self.sequence) == _by_key(
                [(c.kind, (key, c.values)) for key, c in written], self.sequence
            )
        else:
            assert {key: (kind, values) for kind, (key, values) in changes} == {
                key: self._delta([c for k, c in written if k == key]) for key, _ in written
            }

    def _delta(self, changes: list[Change]) -> tuple[str, Values]:
        """What one commit says of a key where nothing says more."""
        changes = self._in_order(changes)
        if self.model.keeps or len(changes) == 1:
            kept = changes[0 if self.model.keeps == "first" else -1]
            return kept.kind, kept.values
        values = self.merge(changes)
        assert values is not None
        return "+I", values

    def _apply(self, changes: list[tuple[str, tuple[Key, Values]]]) -> None:
        before: Values | None = None
        for kind, (key, values) in changes:
            if kind in ("-U", "-D"):
                assert self.images.pop(key) == values
                before = values
            else:
                assert key not in self.images
                if kind == "+U" and self.drops_equal:
                    assert values != before
                self.images[key] = values

    def _newest(self) -> int:
        newest = self.table.latest_snapshot()
        return 0 if newest is None else newest.id

    def _rows(self, table: pa.Table) -> list[tuple[Key, Values]]:
        columns = [table.column(name).to_pylist() for name in ("p", "k", *self.columns)]
        return [((p, k), tuple(values)) for p, k, *values in zip(*columns, strict=True)]

    def _content(self, table: pa.Table) -> Content:
        if table.num_rows == 0:
            return {}
        rows = self._rows(table)
        assert len(dict(rows)) == len(rows)
        return dict(rows)


def _by_key(changes: list[Any], in_any_order: bool) -> dict[Key, list[Any]]:
    found = defaultdict(list)
    for kind, (key, values) in changes:
        found[key].append((kind, values))
    return {key: sorted(of, key=str) if in_any_order else of for key, of in found.items()}


CHOICES = st.fixed_dictionaries(
    {
        "bucket": st.sampled_from(["1", "2"]),
        "num-sorted-run.compaction-trigger": st.sampled_from(["2", "3", "5"]),
        "write-buffer-size": st.sampled_from(["1 kb", "256 mb"]),
        "changelog-producer.row-deduplicate": st.sampled_from(["false", "true"]),
    }
)


def go_through(name: str, producer: str, sequence: bool, data: st.DataObject) -> None:
    history = History(MODELS[name], producer, sequence, data.draw(CHOICES))
    try:
        history.run(data.draw(st.lists(STEPS, min_size=1, max_size=12)))
    finally:
        history.close()
        shutil.rmtree(history.folder, ignore_errors=True)


QUIET = list(HealthCheck)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("name", "producer", "sequence"), CASES)
@settings(
    max_examples=examples(3), derandomize=True, phases=[Phase.generate], suppress_health_check=QUIET
)
@given(data=st.data())
def test_histories(name: str, producer: str, sequence: bool, data: st.DataObject) -> None:
    go_through(name, producer, sequence, data)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "producer", "sequence"), CASES)
@settings(max_examples=examples(60), suppress_health_check=QUIET)
@given(data=st.data())
def test_many_histories(name: str, producer: str, sequence: bool, data: st.DataObject) -> None:
    go_through(name, producer, sequence, data)
