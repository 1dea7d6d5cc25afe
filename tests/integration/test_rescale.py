"""Rescaling tables with fixed buckets: beside writers, in part, killed halfway, on any engine."""

import threading
from collections.abc import Iterable

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pkray
from pkray import errors
from pkray.format.bucket import assign_buckets
from pkray.metadata.live import live_files
from pkray.scan.split import Split
from pkray.table.maintenance import partitions
from tests.effort import examples
from tests.integration.readers import read_with_rust, rows_of

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.string())])
KEYS = [{"dt": dt, "id": number} for dt in "abc" for number in range(40)]


def rows(dt: str, numbers, value: str) -> pa.Table:
    numbers = list(numbers)
    return pa.table([[dt] * len(numbers), numbers, [value] * len(numbers)], schema=SCHEMA)


def content(table: pa.Table) -> dict:
    found = rows_of(table, ["dt", "id"])
    kept = {(dt, number): v for dt, number, v in found}
    assert len(kept) == len(found), "a key is there twice"
    return kept


def create(folder, **options: str) -> pkray.Table:
    catalog = pkray.connect(str(folder), runtime_options={"owners": 2})
    chosen = {"bucket": "2", **{key.replace("_", "-"): value for key, value in options.items()}}
    return catalog.create_table("db.t", SCHEMA, ["dt", "id"], ["dt"], chosen)


def fill(table: pkray.Table, partitions: Iterable[str] = "abc") -> dict:
    with table.open_writer() as writer:
        for dt in partitions:
            writer.upsert(rows(dt, range(30), "old"))
        writer.commit()
        for dt in partitions:
            writer.upsert(rows(dt, range(20, 25), "new"))
            writer.delete([{"dt": dt, "id": 3}])
        writer.commit()
    return content(table.to_arrow())


@pytest.fixture
def filled(tmp_path):
    """A table, and what is in it."""
    table = create(tmp_path)
    return table, fill(table)


def totals(table: pkray.Table) -> dict[str, int]:
    """The number of buckets of each partition, and every row where its hash puts it."""
    found = {}
    types = table.schema.types(table.schema.bucket_keys)
    function = table.schema.core.bucket_function_type
    for entry in live_files(table.location.open(), table.latest_snapshot()):
        columns = ("dt", *table.schema.bucket_keys)
        place = entry.partition, entry.bucket, (entry.file,), columns
        for batch in Split(table.location, table.schema, *place).read():
            keys = [batch.column(name) for name in table.schema.bucket_keys]
            buckets = assign_buckets(keys, types, entry.total_buckets, function)
            assert set(buckets.tolist()) == {entry.bucket}
            found.setdefault(batch.column("dt")[0].as_py(), set()).add(entry.total_buckets)
    assert all(len(counts) == 1 for counts in found.values())
    return {dt: counts.pop() for dt, counts in sorted(found.items())}


@pytest.mark.parametrize("buckets", [1, 3, 7])
def test_rows_are_the_same_over_other_buckets(tmp_path, filled, buckets):
    table, before = filled
    table.rescale(buckets)
    assert content(table.to_arrow()) == before
    assert content(read_with_rust(str(tmp_path), "db.t")) == before
    assert totals(table) == dict.fromkeys("abc", buckets)
    for visibility in ("latest", "committed"):
        assert content(table.lookup(KEYS, visibility=visibility)) == before
    assert table.to_arrow(filter="dt = 'a' AND id = 21")["v"].to_pylist() == ["new"]


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "partial-update"},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "last_value"},
        {"changelog-producer": "lookup"},
        {"deletion-vectors.enabled": "true"},
        {"bucket-function.type": "mod"},
        {"write-only": "true"},
    ],
    ids=lambda options: "-".join(options.values()),
)
def test_tables_of_every_kind(tmp_path, options):
    engine = options.get("merge-engine")
    table = create(tmp_path, **options)
    with table.open_writer() as writer:
        for value in ("one", "two"):
            writer.upsert(rows("a", range(25), value))
            writer.commit()
        if engine is None:
            writer.delete([{"dt": "a", "id": 3}])
            writer.commit()
    before = content(table.to_arrow())
    assert len(before) == (25 if engine else 24)
    table.rescale(5)
    assert content(table.to_arrow()) == before
    assert totals(table) == {"a": 5}
    table.upsert(rows("a", range(20, 30), "three"))
    expected = {**before, **{("a", number): "three" for number in range(20, 30)}}
    assert content(table.to_arrow()) == expected


def test_first_row_keeps_rows_that_are_not_compacted(tmp_path):
    table = create(tmp_path, **{"merge-engine": "first-row", "write-only": "true"})
    with table.open_writer() as writer:
        for value in ("first", "second"):
            writer.upsert(rows("a", range(10), value))
            writer.commit()
    table.rescale(3)
    assert content(table.to_arrow()) == {("a", number): "first" for number in range(10)}


def test_older_snapshots_stay_readable(tmp_path):
    table = create(tmp_path)
    fill(table)
    first = content(table.to_arrow(snapshot_id=1))
    table.rescale(5)
    assert content(table.to_arrow(snapshot_id=1)) == first
    found = table.lookup(KEYS, visibility="committed", snapshot_id=1)
    assert content(found) == first


def test_partitions_one_at_a_time(tmp_path, filled):
    table, before = filled
    table.rescale(3, partitions=[{"dt": "b"}])
    assert totals(table) == {"a": 2, "b": 3, "c": 2}
    assert content(table.lookup(KEYS)) == before
    assert content(table.to_arrow()) == before
    assert content(read_with_rust(str(tmp_path), "db.t")) == before
    with table.open_writer() as writer:
        writer.upsert(rows("b", [1], "written"))
        writer.upsert(rows("new", [1], "written"))
        writer.commit()
        with pytest.raises(errors.PartitionBucketsError, match="rescale") as error:
            writer.upsert(rows("a", [1], "refused"))
            writer.commit()
        assert error.value.buckets == 3
    table.compact()
    table.rescale(3)
    assert totals(table) == {"a": 3, "b": 3, "c": 3, "new": 3}
    expected = {**before, ("b", 1): "written", ("new", 1): "written"}
    assert content(table.to_arrow()) == expected


def test_dedicated_compaction_leaves_partitions_their_number_of_buckets(filled):
    table, before = filled
    table.rescale(3, partitions=[{"dt": "b"}])
    assert table.compact_dedicated(full=True).compacted > 0
    assert totals(table) == {"a": 2, "b": 3, "c": 2}
    for visibility in ("latest", "committed"):
        assert content(table.lookup(KEYS, visibility=visibility)) == before
    table.rescale(3)
    assert totals(table) == dict.fromkeys("abc", 3)
    assert content(table.to_arrow()) == before


def test_an_open_writer_is_told(filled):
    table, before = filled
    with table.open_writer("job") as writer:
        writer.upsert(rows("a", [1, 100], "lost"))
        table.rescale(4)
        with pytest.raises(errors.SchemaChangedError, match="buckets"):
            writer.commit()
        with pytest.raises(errors.SchemaChangedError, match="buckets"):
            writer.upsert(rows("a", [2], "lost"))
    assert content(table.to_arrow()) == before
    table.upsert(rows("a", [1], "written"), commit_user="job")
    assert content(table.to_arrow()) == {**before, ("a", 1): "written"}


def test_a_table_loaded_before_finds_its_keys(filled):
    table, before = filled
    table.rescale(7)
    schema = table.schema.from_json(table.location.open().read("schema/schema-0"))
    assert schema.core.bucket == 2
    stale = pkray.Table(table.location, schema, table.runtime)
    assert content(stale.lookup(KEYS)) == before
    assert content(stale.to_arrow()) == before


def test_a_writer_of_another_process_is_told(tmp_path, filled):
    table, before = filled
    with pkray.connect(str(tmp_path)) as elsewhere:
        with elsewhere.load_table("db.t").open_writer() as rival:
            rival.upsert(rows("a", [1], "theirs"))
            table.rescale(5)
            with pytest.raises((errors.SchemaChangedError, errors.CommitConflictError)):
                rival.commit()
        elsewhere.load_table("db.t").upsert(rows("a", [1], "theirs"))
    assert content(table.to_arrow()) == {**before, ("a", 1): "theirs"}


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_open_writer_is_told_by_what_it_writes_next(tmp_path, filled, elsewhere):
    table, before = filled
    with pkray.connect(str(tmp_path)) as catalog:
        with catalog.load_table("db.t").open_writer() as writer:
            writer.upsert(rows("a", [1], "lost"))
            (table if elsewhere else catalog.load_table("db.t")).rescale(5)
            for work in (writer.upsert, writer.upsert, writer.delete, lambda _: writer.commit()):
                with pytest.raises(errors.SchemaChangedError, match="open a new writer"):
                    work(rows("a", range(9), "lost"))
        catalog.load_table("db.t").upsert(rows("a", [1], "written"))
    assert content(table.to_arrow()) == {**before, ("a", 1): "written"}


@pytest.mark.parametrize("elsewhere", [False, True])
def test_rows_of_before_a_rescale_there_and_back_in_part_wait_for_the_rest(
    tmp_path, filled, elsewhere
):
    table, before = filled
    with pkray.connect(str(tmp_path), runtime_options={"owners": 2}) as catalog:
        rescaled = table if elsewhere else catalog.load_table("db.t")
        with catalog.load_table("db.t").open_writer() as writer:
            writer.upsert(rows("b", range(40), "written"))
            rescaled.rescale(1)
            rescaled.rescale(2, partitions=[{"dt": "a"}])
            with pytest.raises(errors.PartitionBucketsError, match="rescale the partition"):
                writer.commit()
            assert content(table.to_arrow()) == before
            rescaled.rescale(2)
            writer.commit()
    expected = {**before, **{("b", number): "written" for number in range(40)}}
    assert content(table.to_arrow()) == expected == content(table.lookup(KEYS))
    assert totals(table) == {"a": 2, "b": 2, "c": 2}


def test_rows_fit_a_table_that_others_rolled_back_to_as_many_buckets(tmp_path, filled):
    table, before = filled
    first = table.latest_snapshot().id
    table.rescale(1)
    table.rescale(2, partitions=[{"dt": "c"}])
    with pkray.connect(str(tmp_path), runtime_options={"owners": 2}) as catalog:
        elsewhere = catalog.load_table("db.t")
        with elsewhere.open_writer() as writer:
            with pytest.raises(errors.PartitionBucketsError, match="rescale the partition"):
                writer.upsert(rows("a", range(40), "refused"))
            writer.abort()
            table.rollback_to(first)
            writer.upsert(rows("a", range(40), "written"))
            expected = {**before, **{("a", number): "written" for number in range(40)}}
            assert content(elsewhere.lookup(KEYS)) == expected
            writer.commit()
    assert content(table.to_arrow()) == expected
    assert totals(table) == {"a": 2, "b": 2, "c": 2}


def test_rows_wait_where_others_rolled_back_to_another_number_of_buckets(tmp_path, filled):
    table, before = filled
    first = table.latest_snapshot().id
    table.rescale(5)
    with pkray.connect(str(tmp_path), runtime_options={"owners": 2}) as catalog:
        with catalog.load_table("db.t").open_writer() as writer:
            writer.upsert(rows("a", range(40), "written"))
            table.rollback_to(first)
            with pytest.raises(errors.PartitionBucketsError, match=r"table\.rescale\(buckets=5\)"):
                writer.commit()
            assert content(table.to_arrow()) == before
            table.rescale(5)
            writer.upsert(rows("b", [1], "written"))
            writer.commit()
    expected = {**before, **{("a", number): "written" for number in range(40)}}
    assert content(table.to_arrow()) == {**expected, ("b", 1): "written"}
    assert totals(table) == {"a": 5, "b": 5, "c": 5}


@pytest.mark.parametrize("buckets", [1, 5])
def test_lookups_do_not_miss_rows_that_wait_for_a_rescale(tmp_path, filled, buckets):
    table, before = filled
    first = table.latest_snapshot().id
    table.rescale(buckets)
    with pkray.connect(str(tmp_path), runtime_options={"owners": 2}) as catalog:
        elsewhere = catalog.load_table("db.t")
        with elsewhere.open_writer() as writer:
            writer.upsert(rows("a", range(40), "written"))
            expected = {**before, **{("a", number): "written" for number in range(40)}}
            assert content(elsewhere.lookup(KEYS)) == expected
            table.rollback_to(first)
            for find in (elsewhere.lookup, elsewhere.lookup_prefix):
                with pytest.raises(errors.PartitionBucketsError, match="visibility='committed'"):
                    find(KEYS)
                with pytest.raises(errors.PartitionBucketsError, match=rf"buckets={buckets}\)"):
                    find(KEYS[7:8])
                assert content(find(KEYS, visibility="committed")) == before
                others = find([key for key in KEYS if key["dt"] != "a"])
                assert content(others) == {key: row for key, row in before.items() if key[0] != "a"}
            with pytest.raises(errors.PartitionBucketsError, match="visibility='committed'"):
                elsewhere.lookup_prefix([{"id": 7}])
            table.rescale(buckets)
            assert content(elsewhere.lookup(KEYS)) == expected
            writer.commit()
    assert content(table.to_arrow()) == expected


def test_lookups_find_partitions_that_wait_for_a_rescale_in_many_owners(tmp_path):
    names = [f"{number:02}" for number in range(60)]
    with pkray.connect(str(tmp_path), runtime_options={"owners": 24}) as catalog:
        table = catalog.create_table("db.t", SCHEMA, ["dt", "id"], ["dt"], {"bucket": "2"})
        fill(table, names)
        table.rescale(3, partitions=[{"dt": "00"}])
        found = catalog.load_table("db.t").lookup([{"dt": dt, "id": 1} for dt in names])
        assert found["dt"].to_pylist() == names


def test_rows_that_come_while_a_partition_is_rewritten_are_kept(tmp_path, monkeypatch):
    table = create(tmp_path)
    before = fill(table, "a")
    elsewhere = pkray.connect(str(tmp_path))
    rival = elsewhere.load_table("db.t").open_writer()
    rival.upsert(rows("a", [1], "theirs"))
    original, calls = partitions.OverwriteWriter.write, []

    def write(self, batches):
        calls.append(self)
        messages = original(self, batches)
        if len(calls) == 1:
            newest = "pkray.metadata.schemas.SchemaStore.newest"
            monkeypatch.setattr(newest, lambda _: rival._schema)
            rival.commit()
            monkeypatch.undo()
            monkeypatch.setattr(partitions.OverwriteWriter, "write", write)
        return messages

    monkeypatch.setattr("pkray.service.schema_cache.SchemaCache.refresh", lambda *_, **__: None)
    monkeypatch.setattr(partitions.OverwriteWriter, "write", write)
    table.rescale(3)
    assert len(calls) == 2
    assert content(table.to_arrow()) == {**before, ("a", 1): "theirs"}
    elsewhere.close()


@settings(max_examples=examples(8), suppress_health_check=list(HealthCheck))
@given(kill=st.integers(0, 3), again=st.sampled_from([3, 5]))
def test_killed_anywhere_it_runs_again(tmp_path_factory, kill, again):
    table = create(tmp_path_factory.mktemp("t"))
    before = fill(table)

    class Killed(BaseException):
        pass

    def progress(done: int, of: int) -> None:
        if done == kill:
            raise Killed

    with pytest.raises(Killed):
        table.rescale(3, progress=progress)
    assert content(table.to_arrow()) == before
    assert content(table.lookup(KEYS)) == before
    table.rescale(again)
    assert totals(table) == dict.fromkeys("abc", again)
    assert content(table.to_arrow()) == before


def test_beside_a_writer_that_goes_on(tmp_path):
    table = create(tmp_path)
    fill(table, "a")
    stopped, written, failures = threading.Event(), {}, []

    def write() -> None:
        turn = 0
        while not stopped.is_set() and turn < 200:
            turn += 1
            numbers = range(turn * 3 % 40, turn * 3 % 40 + 10)
            try:
                fresh = pkray.Catalog(str(tmp_path), table.runtime).load_table("db.t")
                fresh.upsert(rows("a", numbers, str(turn)))
                written.update({("a", number): str(turn) for number in numbers})
            except (errors.SchemaChangedError, errors.PartitionBucketsError):
                continue
            except errors.PkrayError as error:
                failures.append(error)
                return

    thread = threading.Thread(target=write)
    thread.start()
    for buckets in (3, 1, 4):
        table.rescale(buckets)
    stopped.set()
    thread.join()
    assert not failures
    found = content(table.to_arrow())
    assert {key: found[key] for key in written} == written
    assert content(table.lookup(KEYS, visibility="committed")) == {
        key: v for key, v in found.items() if key[1] < 40
    }
    assert totals(table) == {"a": 4}


def test_bucket_key_and_another_number_of_buckets(tmp_path):
    catalog = pkray.connect(str(tmp_path))
    columns = [("id", "BIGINT"), ("user", "STRING"), ("v", "STRING")]
    table = catalog.create_table(
        "db.t", columns, ["id", "user"], options={"bucket": "4", "bucket-key": "user"}
    )
    data = [{"id": n, "user": f"u{n % 7}", "v": str(n)} for n in range(60)]
    table.upsert(data)
    keys = [{"id": row["id"], "user": row["user"]} for row in data]
    for buckets in (4, 3):
        table.rescale(buckets)
        for visibility in ("latest", "committed"):
            assert table.lookup(keys, visibility=visibility).to_pylist() == data
        chosen = table.to_arrow(filter="user = 'u3'")
        assert sorted(chosen["id"].to_pylist()) == [
            row["id"] for row in data if row["user"] == "u3"
        ]
        assert table.explain(filter="user = 'u3'").buckets_read == 1
    assert read_with_rust(str(tmp_path), "db.t").num_rows == 60


def test_mod_buckets_of_negative_keys(tmp_path):
    catalog = pkray.connect(str(tmp_path))
    columns = [("id", "BIGINT"), ("v", "STRING")]
    options = {"bucket": "3", "bucket-function.type": "mod"}
    table = catalog.create_table("db.t", columns, ["id"], options=options)
    data = [{"id": number, "v": str(number)} for number in range(-10, 10)]
    table.upsert(data)
    assert table.lookup([{"id": row["id"]} for row in data]).to_pylist() == data
    for row in data:
        assert table.to_arrow(filter=f"id = {row['id']}").to_pylist() == [row]


def test_dynamic_buckets_are_not_rescaled(tmp_path):
    catalog = pkray.connect(str(tmp_path))
    table = catalog.create_table("db.t", [("id", "BIGINT")], ["id"], options={"bucket": "-1"})
    with pytest.raises(errors.OptionError, match="dynamic"):
        table.rescale(4)
    with pytest.raises(errors.OptionError):
        create(tmp_path / "other").rescale(0)
