"""The whole path in an object store: moto's server stands for S3."""

import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

import pkray
from tests.integration.readers import RustCatalog, rows_of

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.string())])
KEY = ["dt", "id"]


@pytest.fixture(scope="module")
def bucket(s3: Any) -> str:
    s3.create_bucket(Bucket="warehouse")
    return "warehouse"


@pytest.fixture
def connect(s3_options, bucket, request) -> Iterator[Any]:
    """Opens this test's own prefix of the bucket."""
    opened = []

    def open_catalog(**options: Any) -> pkray.Catalog:
        opened.append(
            pkray.connect(
                f"s3://{bucket}/{request.node.name}",
                **{**s3_options, "allow_http": True, **options},
            )
        )
        return opened[-1]

    yield open_catalog
    for catalog in opened:
        catalog.close()


def create(catalog: pkray.Catalog, options: dict[str, str] | None = None) -> pkray.Table:
    return catalog.create_table("db.t", SCHEMA, KEY, ["dt"], {"bucket": "2", **(options or {})})


def rows(start: int, count: int, v: str) -> pa.Table:
    numbers = range(start, start + count)
    days = [("a b/c", "2024-01-01")[n % 2] for n in numbers]
    return pa.table({"dt": days, "id": list(numbers), "v": [v] * count}, schema=SCHEMA)


def put(table: pkray.Table, data: pa.Table, user: str = "s3", identifier: int | None = None) -> Any:
    return table.upsert(data, commit_user=user, commit_identifier=identifier)


def content(table: pkray.Table) -> dict[int, str]:
    found = table.to_arrow()
    assert found.num_rows == len(set(found["id"].to_pylist()))
    return dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


def test_a_table_lives_in_the_store(connect):
    catalog = connect()
    table = create(catalog)
    put(table, rows(0, 10, "old"))
    put(table, rows(5, 10, "new"))
    table.delete([{"dt": "a b/c", "id": 0}])
    expected = {n: "old" if n < 5 else "new" for n in range(1, 15)}
    assert content(table) == expected
    assert table.compact(full=True).commit_kind == "COMPACT"
    assert content(table) == expected
    assert set(table.files()["level"].to_pylist()) == {5}
    other = connect()
    assert other.list_tables() == ["db.t"]
    again = other.load_table("db.t")
    assert content(again) == expected
    assert rows_of(again.to_arrow(filter="dt = 'a b/c' AND id < 4"), KEY) == [("a b/c", 2, "old")]
    assert again.snapshots()["snapshot_id"].to_pylist() == [1, 2, 3, 4]
    put(again, rows(20, 1, "continued"))
    assert content(table) == {**expected, 20: "continued"}


def test_two_committers_compete(connect):
    create(connect(), {"num-sorted-run.compaction-trigger": "3"})
    commits, start = 4, threading.Barrier(2)

    def commit_all(user: int) -> None:
        table = connect().load_table("db.t")
        start.wait()
        for turn in range(commits):
            put(table, rows(1000 * user + turn * 10, 12, f"{turn}"), f"user-{user}", turn)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(commit_all, range(2)))
    table = connect().load_table("db.t")
    expected = {}
    for turn in range(commits):
        for n in range(turn * 10, turn * 10 + 12):
            expected |= {n: f"{turn}", 1000 + n: f"{turn}"}
    assert content(table) == expected
    snapshots = table.snapshots()
    ids = snapshots["snapshot_id"].to_pylist()
    assert ids == list(range(1, len(ids) + 1))
    appended = snapshots.filter(pa.compute.equal(snapshots["commit_kind"], "APPEND"))
    names = list(
        zip(*(appended[n].to_pylist() for n in ("commit_user", "commit_identifier")), strict=True)
    )
    assert sorted(names) == [(f"user-{u}", turn) for u in range(2) for turn in range(commits)]


def test_an_independent_reader(connect, s3_options, bucket, request):
    table = create(connect())
    put(table, rows(0, 20, "a"))
    put(table, rows(10, 20, "b"))
    table.compact(full=True)
    rust = RustCatalog(
        f"s3://{bucket}/{request.node.name}",
        {
            "s3.endpoint": s3_options["endpoint"],
            "s3.access-key": s3_options["access_key_id"],
            "s3.secret-key": s3_options["secret_access_key"],
            "s3.region": s3_options["region"],
            "s3.path.style.access": "true",
        },
    )
    assert rows_of(rust.read("db.t"), KEY) == rows_of(table.to_arrow(), KEY)


def test_a_dropped_table_leaves_the_mark_of_the_warehouse_alone(connect, s3, bucket, request):
    catalog = connect()
    put(create(catalog), rows(0, 5, "a"))
    catalog.drop_table("db.t")
    assert catalog.list_tables() == []
    left = s3.list_objects_v2(Bucket=bucket, Prefix=f"{request.node.name}/")["Contents"]
    assert [each["Key"] for each in left] == [f"{request.node.name}/.pkray"]


def test_a_bucket_that_does_not_exist(s3_options):
    catalog = pkray.connect("s3://no-such-bucket/x", **s3_options, allow_http=True)
    for use in (catalog.list_tables, lambda: create(catalog)):
        with pytest.raises(pkray.StorageError, match=r"no-such-bucket.*there is no such bucket"):
            use()


@pytest.mark.parametrize("given", ["localhost:9000", "s3.local", ""])
def test_an_endpoint_without_a_scheme(connect, given):
    with pytest.raises(pkray.OptionError, match=r"'endpoint' is no URL: .*https://"):
        connect(endpoint=given)


@pytest.mark.parametrize(
    ("given", "message"), [(None, "None: leave it out"), (5, "a int: give text")]
)
def test_an_option_that_is_no_text(connect, given, message):
    with pytest.raises(pkray.OptionError, match=f"'session_token' cannot be {message}"):
        connect(session_token=given)


def test_an_endpoint_that_is_not_there(connect):
    with pytest.raises(pkray.StorageError, match="warehouse"):
        create(connect(endpoint="http://127.0.0.1:9", max_retries="1"))


def test_a_folder_takes_backups_of_a_bucket(connect, tmp_path):
    catalog = connect()
    table = catalog.create_table("db.t", [("k", "INT")], ["k"])
    table.upsert([{"k": 1}])
    backups = catalog.backups(tmp_path / "backups")
    assert backups.create("one").tables == ["db.t"]
    assert backups.verify("one").is_whole


def test_the_changelog(connect):
    table = create(connect(), {"changelog-producer": "lookup"})
    put(table, rows(0, 2, "a"))
    put(table, rows(1, 2, "b"))
    log = table.changelog()
    found = sorted(zip(*(log[name].to_pylist() for name in ("id", "_row_kind", "v")), strict=True))
    assert found == [(0, "+I", "a"), (1, "+I", "a"), (1, "+U", "b"), (1, "-U", "a"), (2, "+I", "b")]


def test_parts_of_a_read_go_to_other_processes(connect):
    table = create(connect())
    put(table, rows(0, 20, "a"))
    splits = pickle.loads(pickle.dumps(table.splits()))
    found = pa.Table.from_batches([batch for split in splits for batch in split.read()])
    assert rows_of(found, KEY) == rows_of(table.to_arrow(), KEY)
