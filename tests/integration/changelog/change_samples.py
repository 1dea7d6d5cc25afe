"""Tables with random histories, and a dict that changes are applied to."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import pkray

State = dict[int, str | None]
COLUMNS = [("k", "BIGINT"), ("v", "STRING")]

TABLES: dict[str, dict[str, str]] = {
    "none": {},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "full": {"changelog-producer": "full-compaction"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "vectors-lookup": {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true"},
    "first-row-lookup": {
        "merge-engine": "first-row",
        "ignore-delete": "true",
        "changelog-producer": "lookup",
    },
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "listagg",
        "ignore-delete": "true",
    },
    "partial-update": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "partial-update-lookup": {
        "merge-engine": "partial-update",
        "ignore-delete": "true",
        "changelog-producer": "lookup",
    },
    "dynamic": {"bucket": "-1"},
}


def create(warehouse: Path, options: dict[str, str], columns: Any = COLUMNS) -> pkray.Catalog:
    """A warehouse with the table ``db.t``."""
    catalog = pkray.connect(str(warehouse))
    common = {"bucket": "2", "num-sorted-run.compaction-trigger": "3"}
    catalog.create_table("db.t", columns, ["k"], options={**common, **options})
    return catalog


def put(table: pkray.Table, rows: State, deletes: Iterable[int] = (), **commit: Any) -> int:
    """Commit rows, then deletes; the newest snapshot's id."""
    with table.open_writer() as writer:
        if rows:
            writer.upsert([{"k": key, "v": value} for key, value in rows.items()])
        gone = [{"k": key} for key in deletes]
        if gone:
            writer.delete(gone)
        writer.commit(**commit)
    return table.latest_snapshot().id


def random_step(table: pkray.Table, rng: random.Random, *, overwrites: bool = False) -> None:
    """A commit, a compaction or an overwrite."""
    choice = rng.random()
    if choice < 0.1:
        table.compact(full=rng.random() < 0.5)
    elif overwrites and choice < 0.25:
        new = [{"k": rng.randrange(12), "v": "o"} for _ in range(rng.randrange(4))]
        table.overwrite(pa.Table.from_pylist(new, table.arrow_schema), {})
    else:
        rows = {rng.randrange(12): rng.choice(["a", "b", "c", None]) for _ in range(5)}
        put(table, rows, rng.sample(range(12), 2))


def state_at(table: pkray.Table, snapshot_id: int | None = None) -> State:
    return as_state(table.to_arrow(snapshot_id=snapshot_id))


def as_state(rows: pa.Table) -> State:
    return dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))


def changes_of(batches: Iterable[pa.RecordBatch]) -> list[tuple]:
    """(row kind, key, value) in order."""
    return [
        (row["_row_kind"], row["k"], row["v"]) for batch in batches for row in batch.to_pylist()
    ]


@dataclass
class Follower:
    """What a reader of changes holds.

    Args:
        complete: every change must name the row that was there.
    """

    complete: bool = False
    state: State = field(default_factory=dict)

    def apply(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            kind, key, value = row["_row_kind"], row["k"], row["v"]
            if self.complete:
                there = (key, self.state.get(key)) if key in self.state else None
                assert there == (None if kind == "+I" else (key, value)) or kind == "+U", row
                assert kind != "+U" or key not in self.state, "a -U comes before"
            if kind in ("+I", "+U"):
                self.state[key] = value
            else:
                self.state.pop(key, None)

    def follow(self, stream: Iterable[pa.RecordBatch]) -> dict[int, State]:
        """The state after each snapshot that changed something."""
        after: dict[int, State] = {}
        for batch in stream:
            self.apply(batch)
            after[batch["_snapshot_id"][0].as_py()] = dict(self.state)
        return after


def filled(after: dict[int, State], first: int, last: int, before: State) -> dict[int, State]:
    """With the snapshots that changed nothing."""
    found = {}
    for number in range(first, last + 1):
        before = found[number] = after.get(number, before)
    return found
