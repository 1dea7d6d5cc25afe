"""Random histories of a table against a dict."""

from __future__ import annotations

import shutil
import tempfile

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import pkray
from tests.effort import examples
from tests.integration.readers import read_with_rust, rows_of

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.string()), ("n", pa.int32())])
KEYS = st.tuples(st.sampled_from(["a", "b/c", ""]), st.integers(0, 12))
VALUES = st.tuples(st.text(max_size=20) | st.none(), st.integers(-5, 5) | st.none())


def as_rows(entries: dict) -> pa.Table:
    rows = [{"dt": k[0], "id": k[1], "v": v[0], "n": v[1]} for k, v in entries.items()]
    return pa.Table.from_pylist(rows, SCHEMA)


class TableMachine(RuleBasedStateMachine):
    """`committed` is the dict at the last commit, `latest` with what is written since."""

    partitioned = False

    @initialize(buckets=st.integers(1, 7), trigger=st.integers(2, 5))
    def create(self, buckets: int, trigger: int) -> None:
        self.folder = tempfile.mkdtemp()
        self.identifier = 0
        self.committed: dict = {}
        self.latest: dict = {}
        self.catalog = pkray.connect(self.folder)
        self.table = self.catalog.create_table(
            "db.t",
            SCHEMA,
            primary_keys=["dt", "id"],
            partition_keys=["dt"] if self.partitioned else [],
            options={
                "bucket": str(buckets),
                "num-sorted-run.compaction-trigger": str(trigger),
                "write-buffer-size": "1 kb",
            },
        )
        self.writer = self.table.open_writer("model")

    @rule(rows=st.dictionaries(KEYS, VALUES, min_size=1, max_size=12))
    def upsert(self, rows: dict) -> None:
        self.writer.upsert(as_rows(rows))
        self.latest.update(rows)

    @rule(keys=st.sets(KEYS, min_size=1, max_size=6))
    def delete(self, keys: set) -> None:
        self.writer.delete([{"dt": dt, "id": i} for dt, i in keys])
        for key in keys:
            self.latest.pop(key, None)

    @rule()
    def commit(self) -> None:
        self.identifier += 1
        self.writer.commit(commit_identifier=self.identifier)
        self.committed = dict(self.latest)

    @rule()
    def commit_the_same_again(self) -> None:
        if self.identifier and self.latest == self.committed:
            before = self._commits()
            self.writer.commit(commit_identifier=self.identifier)
            assert self._commits() == before  # compactions may be published; rows are not

    @rule()
    def abort(self) -> None:
        self.writer.abort()
        self.latest = dict(self.committed)

    @rule(full=st.booleans())
    def compact(self, full: bool) -> None:
        self.table.compact(full=full)

    @rule()
    def reopen(self) -> None:
        self.catalog.close()
        self.catalog = pkray.connect(self.folder)
        self.table = self.catalog.load_table("db.t")
        self.writer = self.table.open_writer("model")
        self.latest = dict(self.committed)

    @rule(
        keys=st.lists(KEYS, min_size=1, max_size=8),
        visibility=st.sampled_from(["latest", "committed"]),
    )
    def lookup(self, keys: list, visibility: str) -> None:
        model = self.latest if visibility == "latest" else self.committed
        found = self.table.lookup(
            [{"dt": dt, "id": i} for dt, i in keys], visibility=visibility
        ).to_pylist()
        expected = [
            {"dt": k[0], "id": k[1], "v": model[k][0], "n": model[k][1]} for k in keys if k in model
        ]
        assert found == expected

    @rule()
    def read_independently(self) -> None:
        if self.table.latest_snapshot() is not None and self.committed:
            found = read_with_rust(self.folder, "db.t")
            assert rows_of(found.select(SCHEMA.names), ["dt", "id"]) == self._expected()

    @invariant()
    def scan_equals_model(self) -> None:
        if hasattr(self, "table"):
            assert rows_of(self.table.to_arrow(), ["dt", "id"]) == self._expected()

    def _commits(self) -> list[tuple]:
        """The snapshots that brought rows."""
        snapshots = self.table.snapshots().select(["snapshot_id", "commit_kind"]).to_pylist()
        return [tuple(each.values()) for each in snapshots if each["commit_kind"] != "COMPACT"]

    def _expected(self) -> list[tuple]:
        return [(*key, *value) for key, value in sorted(self.committed.items())]

    def teardown(self) -> None:
        if hasattr(self, "catalog"):
            self.catalog.close()
            shutil.rmtree(self.folder, ignore_errors=True)


class PartitionedMachine(TableMachine):
    partitioned = True


SETTINGS = settings(
    max_examples=examples(15), stateful_step_count=25, suppress_health_check=list(HealthCheck)
)
TestTable = TableMachine.TestCase
TestTable.settings = SETTINGS
TestPartitioned = PartitionedMachine.TestCase
TestPartitioned.settings = SETTINGS
