"""Tables with dynamic buckets: random histories against a dict, and their hash indexes."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import pkray
from pkray.commit.index_files import index_files
from pkray.errors import CommitConflictError, SchemaError
from pkray.format.bucket import hash_rows
from pkray.format.hash_index import read_hashes
from pkray.format.index_file import HASH
from pkray.metadata.live import live_files
from pkray.scan.split import Split
from tests.effort import examples
from tests.integration.readers import read_with_rust, rows_of

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.string())])
TARGET = 5
KEYS = st.tuples(st.sampled_from(["a", "b/c", ""]), st.integers(-40, 40))
ROWS = st.dictionaries(KEYS, st.text(max_size=8) | st.none(), min_size=1, max_size=30)


def as_rows(entries: dict) -> pa.Table:
    rows = [{"dt": dt, "id": number, "v": v} for (dt, number), v in entries.items()]
    return pa.Table.from_pylist(rows, SCHEMA)


def content(table: pa.Table) -> dict:
    rows = rows_of(table.select(SCHEMA.names) if table.num_rows else table, ["dt", "id"])
    found = {(dt, number): v for dt, number, v in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


def check_index(table: pkray.Table, target: int) -> None:
    """Every key's hash is in the index of its bucket, and in no other bucket's."""
    snapshot = table.latest_snapshot()
    store = table.location.open()
    if snapshot is None:
        return
    indexed = {
        bucket: np.concatenate([read_hashes(store, file) for file in files]).tolist()
        for bucket, files in index_files(store, snapshot, HASH).items()
    }
    owners = Counter(
        (partition, hash_) for (partition, _), hashes in indexed.items() for hash_ in hashes
    )
    assert set(owners.values()) <= {1}, "a key's hash is in the index of two buckets"
    assert all(len(hashes) <= target for hashes in indexed.values())
    entries = live_files(store, snapshot)
    assert {entry.total_buckets for entry in entries} <= {-1}
    types = table.schema.types(["id"])
    for entry in entries:
        bucket = entry.partition, entry.bucket
        split = Split(table.location, table.schema, *bucket, (entry.file,), ("id",))
        for batch in split.read():
            hashes = hash_rows([batch.column("id")], types).tolist()
            assert set(hashes) <= set(indexed[bucket])


class DynamicMachine(RuleBasedStateMachine):
    """`committed` is the dict at the last commit, `latest` with what is written since."""

    partitioned = True

    @initialize(owners=st.integers(1, 4), producer=st.sampled_from(["none", "lookup"]))
    def create(self, owners: int, producer: str) -> None:
        self.folder = tempfile.mkdtemp()
        self.committed: dict = {}
        self.latest: dict = {}
        self.identifier = 0
        with pkray.connect(self.folder) as catalog:
            catalog.create_table(
                "db.t",
                SCHEMA,
                primary_keys=["dt", "id"],
                partition_keys=["dt"] if self.partitioned else [],
                options={
                    "bucket": "-1",
                    "dynamic-bucket.target-row-num": str(TARGET),
                    "changelog-producer": producer,
                    "num-sorted-run.compaction-trigger": "3",
                },
            )
        self.open(owners)

    def open(self, owners: int) -> None:
        self.catalog = pkray.connect(self.folder, runtime_options={"owners": owners})
        self.table = self.catalog.load_table("db.t")
        self.writer = self.table.open_writer("model")

    @rule(rows=ROWS)
    def upsert(self, rows: dict) -> None:
        self.writer.upsert(as_rows(rows))
        self.latest.update(rows)

    @rule(keys=st.sets(KEYS, min_size=1, max_size=6))
    def delete(self, keys: set) -> None:
        self.writer.delete([{"dt": dt, "id": number} for dt, number in keys])
        for key in keys:
            self.latest.pop(key, None)

    @rule(full_compact=st.booleans())
    def commit(self, full_compact: bool) -> None:
        self.writer.commit(self.identifier, full_compact=full_compact)
        self.identifier += 1
        self.committed = dict(self.latest)

    @rule(rows=ROWS)
    def commit_again(self, rows: dict) -> None:
        """Rows under a commit name that is taken change nothing."""
        if self.identifier == 0:
            return
        self.writer.abort()
        self.writer.upsert(as_rows(rows))
        self.writer.commit(self.identifier - 1)
        self.latest = dict(self.committed)

    @rule()
    def abort(self) -> None:
        self.writer.abort()
        self.latest = dict(self.committed)

    @rule(rows=ROWS, commits=st.booleans())
    def write_beside(self, rows: dict, commits: bool) -> None:
        """Another session of the same service; what it writes is not seen once it is dropped."""
        if self.latest != self.committed:
            return
        with self.table.open_writer("beside") as other:
            other.upsert(as_rows(rows))
            if commits:
                other.commit()
                self.committed.update(rows)
                self.latest = dict(self.committed)

    @rule(owners=st.integers(1, 4))
    def reopen(self, owners: int) -> None:
        self.catalog.close()
        self.latest = dict(self.committed)
        self.open(owners)

    @rule()
    def compact(self) -> None:
        self.table.compact()

    @rule(keys=st.sets(KEYS, min_size=1, max_size=20))
    def look_up(self, keys: set) -> None:
        asked = [{"dt": dt, "id": number} for dt, number in keys]
        for visibility, expected in (("latest", self.latest), ("committed", self.committed)):
            found = content(self.table.lookup(asked, visibility=visibility))
            assert found == {key: v for key, v in expected.items() if key in keys}

    @rule(number=st.integers(-40, 40))
    def read_one_key(self, number: int) -> None:
        found = content(self.table.to_arrow(filter=f"id = {number}"))
        assert found == {key: v for key, v in self.committed.items() if key[1] == number}

    @invariant()
    def reads_agree(self) -> None:
        if not hasattr(self, "table"):
            return
        assert content(self.table.to_arrow()) == self.committed
        if self.partitioned:
            check_index(self.table, TARGET)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            if self.committed:
                assert content(read_with_rust(self.folder, "db.t")) == self.committed
            self.catalog.close()
            shutil.rmtree(self.folder)


class UnpartitionedMachine(DynamicMachine):
    partitioned = False


CHECKS = settings(max_examples=examples(12), stateful_step_count=14)
TestDynamic = DynamicMachine.TestCase
TestDynamic.settings = CHECKS
TestUnpartitioned = UnpartitionedMachine.TestCase
TestUnpartitioned.settings = CHECKS


@pytest.fixture
def catalog(tmp_path):
    with pkray.connect(str(tmp_path), runtime_options={"owners": 2}) as catalog:
        yield catalog


def dynamic(catalog: pkray.Catalog, **options: str) -> pkray.Table:
    named = {key.replace("_", "-"): value for key, value in options.items()}
    return catalog.create_table("db.t", SCHEMA, ["dt", "id"], ["dt"], {"bucket": "-1", **named})


def test_many_rows_fill_many_buckets(catalog):
    table = dynamic(catalog, **{"dynamic-bucket.target-row-num": "1000"})
    rows = {("a", number): str(number) for number in range(20_000)}
    with table.open_writer() as writer:
        writer.upsert(as_rows(rows))
        writer.commit()
        writer.upsert(as_rows(dict.fromkeys(rows, "again")))
        writer.commit()
    assert content(table.to_arrow()) == dict.fromkeys(rows, "again")
    check_index(table, 1000)
    assert table.snapshots().num_rows == 2


def test_commits_of_known_keys_write_no_index(catalog):
    table = dynamic(catalog)
    with table.open_writer() as writer:
        writer.upsert(as_rows({("a", 1): "x", ("b", 1): "x"}))
        first = writer.commit()
        writer.upsert(as_rows({("a", 1): "y"}))
        assert writer.commit().index_manifest == first.index_manifest


def test_of_two_processes_that_add_keys_the_second_fails(tmp_path, catalog):
    table = dynamic(catalog)
    with pkray.connect(str(tmp_path)) as elsewhere:
        with table.open_writer() as writer, elsewhere.load_table("db.t").open_writer() as rival:
            writer.upsert(as_rows({("a", 1): "ours", ("a", 2): "ours"}))
            rival.upsert(as_rows({("a", 2): "theirs", ("a", 3): "theirs"}))
            rival.commit()
            with pytest.raises(CommitConflictError):
                writer.commit()
            writer.abort()
            writer.upsert(as_rows({("a", 1): "ours", ("a", 2): "ours"}))
            writer.commit()
    expected = {("a", 1): "ours", ("a", 2): "ours", ("a", 3): "theirs"}
    assert content(table.to_arrow()) == expected
    check_index(table, 3)


def test_writers_of_one_service_side_by_side(catalog):
    table = dynamic(catalog, **{"dynamic-bucket.target-row-num": "50"})

    def write(user: int) -> None:
        with table.open_writer(f"user-{user}") as writer:
            for turn in range(8):
                numbers = range(turn * 40 + user * 10, turn * 40 + user * 10 + 60)
                writer.upsert(as_rows({("a", number): "x" for number in numbers}))
                writer.commit()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    assert sorted(key for _, key in content(table.to_arrow())) == list(range(360))
    check_index(table, 50)


def test_a_bucket_key_goes_with_fixed_buckets_alone(catalog):
    with pytest.raises((SchemaError, pkray.OptionError)):
        dynamic(catalog, **{"bucket-key": "id"})


def test_a_partition_that_goes_and_comes_again(catalog):
    table = dynamic(catalog, **{"dynamic-bucket.target-row-num": "2"})
    with table.open_writer() as writer:
        writer.upsert(as_rows({("a", number): "x" for number in range(7)}))
        writer.commit()
    table.drop_partitions([{"dt": "a"}])
    with table.open_writer() as writer:
        writer.upsert(as_rows({("a", number): "y" for number in range(3)}))
        writer.commit()
    assert content(table.to_arrow()) == {("a", number): "y" for number in range(3)}
    check_index(table, 2)


def test_a_distributed_push_whose_tasks_fail_and_are_repeated(catalog):
    table = dynamic(catalog, **{"dynamic-bucket.target-row-num": "10"})
    expected: dict = {}
    for turn in range(3):
        session, reports = table.open_push("job", turn), []
        for source in range(3):
            failed = session.target().open(source, 0)
            failed.push(as_rows({("a", 1000 * (source + 1) + n): "failed" for n in range(25)}))
            failed.finish()
            task = session.target().open(source, 1)
            rows = {("a", source * 20 + n): f"{turn}" for n in range(15 + turn)}
            task.push(as_rows(rows))
            reports.append(task.finish())
            expected.update(rows)
        reports.append(session.target().open(9, 0).finish())
        session.commit(reports)
        assert content(table.to_arrow()) == expected
        check_index(table, 10)
    keys = [{"dt": dt, "id": number} for dt, number in expected]
    assert content(table.lookup(keys)) == expected
