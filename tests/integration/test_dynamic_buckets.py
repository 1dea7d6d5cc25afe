"""Tables with dynamic buckets: random histories against a dict, and their hash indexes."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant

import pkray
from pkray.commit.index_files import index_files
from pkray.errors import CommitConflictError, SchemaError
from pkray.format.bucket import hash_rows
from pkray.format.hash_index import read_hashes
from pkray.format.index_file import HASH
from pkray.metadata.live import live_files
from pkray.scan.split import Split
from tests.effort import examples
from tests.integration import table_machine
from tests.integration.table_machine import SCHEMA, TableMachine, as_keys, as_rows

TARGET = 5


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


class DynamicMachine(TableMachine):
    def options(self) -> st.SearchStrategy[dict[str, str]]:
        return st.fixed_dictionaries(
            {
                "bucket": st.just("-1"),
                "dynamic-bucket.target-row-num": st.just(str(TARGET)),
                "changelog-producer": st.sampled_from(["none", "lookup"]),
                "num-sorted-run.compaction-trigger": st.just("3"),
            }
        )

    @invariant()
    def indexes_agree(self) -> None:
        if hasattr(self, "table") and self.partitioned:
            check_index(self.table, TARGET)


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


def content(table: pa.Table) -> dict:
    return {key: v for key, (v, _) in table_machine.content(table).items()}


def dynamic(catalog: pkray.Catalog, **options: str) -> pkray.Table:
    named = {key.replace("_", "-"): value for key, value in options.items()}
    return catalog.create_table("db.t", SCHEMA, ["dt", "id"], ["dt"], {"bucket": "-1", **named})


def test_many_rows_fill_many_buckets(catalog):
    table = dynamic(catalog, **{"dynamic-bucket.target-row-num": "1000"})
    rows = {("a", number): str(number) for number in range(20_000)}
    table.upsert(as_rows(rows))
    table.upsert(as_rows(dict.fromkeys(rows, "again")))
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
    table.upsert(as_rows({("a", number): "x" for number in range(7)}))
    table.drop_partitions([{"dt": "a"}])
    table.upsert(as_rows({("a", number): "y" for number in range(3)}))
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
    assert content(table.lookup(as_keys(expected))) == expected
