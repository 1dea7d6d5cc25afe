"""The order of rows alone makes a bucket's content, wherever commits, flushes and compactions fall.

One history of rows is cut at random, and compared with what the rows make one by one.
"""

import copy
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from boundary_tables import TABLES, BoundaryTable, Key, Row

from pkray.format.data_file import DataFileMeta
from pkray.lookup.bucket_lookup import BucketLookup
from pkray.lookup.source import DataFileSource
from pkray.lookup.store import LookupStore
from pkray.lsm.compaction.compactor import Compactor
from pkray.lsm.compaction.pick import CompactionUnit, forces_level_0_up, level_count
from pkray.lsm.compaction.upper_lookup import ScanLookup
from pkray.lsm.engines import merge_engine
from tests.effort import EFFORT
from tests.lsm_samples import Bucket, make_schema, rows_of

KEYS = 3
CUTS = ("flush", "flush", "commit", "commit", "compact", "full", "commit full", "reopen")
BY_OTHERS = ("compaction", "compaction later", "rows")
CASES = [(name, producer) for name, table in TABLES.items() for producer in table.producers]


class WithoutCopies:
    """Finds rows in the files themselves; `LookupStore` copies each file first."""

    def locate(
        self, source: DataFileSource, file: DataFileMeta, keys: pa.Table, columns: list[str]
    ) -> tuple[np.ndarray, np.ndarray, pa.Table]:
        rows = pa.Table.from_batches(source.read(file, list(dict.fromkeys([*columns, "k"]))))
        places = {key: place for place, key in enumerate(rows.column("k").to_pylist())}
        wanted = [places.get(key, -1) for key in keys.column("k").to_pylist()]
        found = np.flatnonzero(np.array(wanted) >= 0)
        where = np.array(wanted)[found]
        return found, where, rows.select(columns).take(pa.array(where))


class CutHistory:
    """A bucket whose rows are cut at random, beside its model."""

    def __init__(self, table: BoundaryTable, producer: str, seed: str) -> None:
        self.chance = random.Random(seed)
        self.table = table = self._with_few_columns(table)
        options = {"changelog-producer": producer, "target-file-size": "1 kb", **table.all_options}
        options["num-sorted-run.compaction-trigger"] = self.chance.choice(["2", "3", "5"])
        for key, value in (("write-only", "true"), ("num-levels", "4")):
            if self.chance.random() < 0.2:
                options[key] = value
        columns = [(name, column.type) for name, column in table.columns.items()]
        self.schema = make_schema([("k", "BIGINT NOT NULL"), *columns], **options)
        self.producer = producer
        self.lags = forces_level_0_up(self.schema) and self.schema.core.write_only
        self.bucket = Bucket(self.schema)
        self.store = cast("LookupStore", WithoutCopies())
        self.keys: dict[int, Key] = defaultdict(Key)
        self.replayed: dict[int, Any] = {}
        self.said: list[str] = []
        self.committed: list[tuple[int, str, Row]] = []
        self.pending: list[tuple[int, str, Row]] = []

    def _with_few_columns(self, table: BoundaryTable) -> BoundaryTable:
        chosen = [
            name for name, column in table.columns.items() if "aggregate-function" in column.options
        ]
        left_out = set(self.chance.sample(chosen, max(0, len(chosen) - 4)))
        columns = {name: c for name, c in table.columns.items() if name not in left_out}
        return replace(table, columns=columns)

    def run(self, rows: int) -> None:
        cuts = self.chance.choice([0.1, 0.4, 0.8])
        for _ in range(rows):
            self._write()
            if self.chance.random() < cuts:
                self._cut(self.chance.choice(CUTS))
            if self.chance.random() < 0.1:
                self._meanwhile(self.chance.choice(BY_OTHERS))
            if self.chance.random() < 0.2:
                self._check_latest()
        self._cut("commit")
        self._cut("commit full")

    def _write(self) -> None:
        number = self.chance.randrange(KEYS)
        key, kind = self.keys[number], self.chance.choice(self.table.kinds)
        row = {name: column.draw(self.chance) for name, column in self.table.columns.items()}
        if self.table.fits(key, kind, row):
            self.said.append(f"{kind} {number} {row}")
            self.bucket.write((kind, number, *row.values()))
            self.table.apply(self.table, key, kind, row)
            self.pending.append((number, kind, row))

    def _meanwhile(self, what: str) -> None:
        """Somebody else changes the committed files, which the writer builds on from then on."""
        if self.schema.core.deletion_vectors_enabled:
            return
        self.said.append(f"others: {what}")
        if what == "rows":
            self._write_elsewhere()
        else:
            self._compact_elsewhere(later=what == "compaction later")
        self.bucket.writer.rebase(self.bucket.committed)
        self._check_latest()

    def _write_elsewhere(self) -> None:
        if self.table.is_restricted or self.producer in ("lookup", "full-compaction"):
            return
        mine, self.bucket = self.bucket, copy.copy(self.bucket)
        self.bucket.reopen()
        pending, self.pending = self.pending, []
        self._write()
        self.bucket.commit()
        mine.committed = self.bucket.committed
        self.committed += self.pending
        self.bucket, self.pending = mine, pending
        self.keys.clear()
        for number, kind, row in [*self.committed, *self.pending]:
            self.table.apply(self.table, self.keys[number], kind, row)

    def _compact_elsewhere(self, later: bool) -> None:
        runs = self.bucket.committed.runs()
        if not runs:
            return
        level_0 = sum(run.level == 0 for run in runs)
        count = self.chance.randrange(max(1, level_0), len(runs) + 1)
        top = level_count(self.schema.core, runs) - 1
        output = runs[count].level - 1 if count < len(runs) else top
        if output < max(1, runs[count - 1].level + (count == 1)):
            return
        unit = CompactionUnit(output, runs[:count])
        engine = merge_engine(self.schema)
        lookup = ScanLookup(self.schema, self.bucket.files, engine)
        compactor = Compactor(self.schema, self.bucket.files, engine, lookup)
        result = compactor.run(unit, self.bucket.committed)
        if later and self.schema.core.write_only:
            self._cut("commit")
        if not _places(result.before) <= _places(self.bucket.committed.files):
            return  # a commit of it would meet a conflict
        self.bucket.committed = self.bucket.committed.apply(result.before, result.after)
        self._replay(self.bucket.rows_of(result.changelog))

    def _cut(self, what: str) -> None:
        self.said.append(what)
        writer = self.bucket.writer
        if what == "flush":
            writer.flush()
        elif what in ("compact", "full"):
            writer.compact(full=what == "full")
        else:
            self._check_latest()
            changes = self.bucket.commit(full=what == "commit full")
            self.committed += self.pending
            self.pending.clear()
            self._check_changes(changes, what)
            if not self.lags or what == "commit full":
                assert self._by_key(self.bucket.content()) == self._expected()
            self._check_latest()
            if what == "reopen":
                self.bucket.reopen()

    def _check_changes(self, changes: list[tuple[Any, ...]], what: str) -> None:
        if self.producer not in ("lookup", "full-compaction"):
            return
        self._replay(changes)
        is_whole = not self.schema.core.write_only and self.producer == "lookup"
        if is_whole or what == "commit full":
            assert {n: normal(values) for n, values in self.replayed.items()} == self._expected()

    def _replay(self, changes: list[tuple[Any, ...]]) -> None:
        for kind, number, *values in changes:
            if kind in ("-U", "-D"):
                assert normal(self.replayed.pop(number)) == normal(values)
            else:
                assert number not in self.replayed
                self.replayed[number] = values

    def _check_latest(self) -> None:
        wanted = pa.RecordBatch.from_pydict({"k": pa.array(range(KEYS), pa.int64())})
        bucket, schema = self.bucket, self.schema
        lookup = BucketLookup(self.store, bucket.files, schema, merge_engine(schema))
        held = [bucket.writer.uncommitted]
        _, rows = lookup.find(bucket.committed, wanted, schema.names, held)
        assert self._by_key(rows_of(rows.to_batches())) == self._expected()

    def _by_key(self, rows: list[tuple[Any, ...]]) -> dict[int, Any]:
        found = {number: normal(values) for number, *values in rows}
        assert len(found) == len(rows)
        return found

    def _expected(self) -> dict[int, Any]:
        return {
            number: normal(list(key.row.values()))
            for number, key in self.keys.items()
            if key.row is not None
        }


def _places(files: Iterable[DataFileMeta]) -> set[tuple[int, str]]:
    return {(file.level, file.file_name) for file in files}


def normal(values: list[Any]) -> list[Any]:
    """Maps have no order."""
    return [
        sorted(value, key=repr) if isinstance(value, list) and value and isinstance(value[0], tuple)
        else value
        for value in values
    ]  # fmt: skip


@pytest.mark.sampled(20)
@pytest.mark.parametrize(("name", "producer"), CASES)
def test_content_is_made_by_the_order_of_rows_alone(name: str, producer: str) -> None:
    for number in range(EFFORT):
        history = CutHistory(TABLES[name], producer, f"{name}/{producer}/{number}")
        try:
            history.run(rows=24)
        except Exception as error:
            said = "\n".join(history.said)
            options = history.schema.options
            raise AssertionError(f"history {number} of {options}:\n{said}") from error
