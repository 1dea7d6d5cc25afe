"""System tables, as an independent reader sees them."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import pkray
from pkray.errors import SnapshotNotFoundError, TableNotFoundError
from pkray.expiration.branches import BranchHistories
from pkray.metadata.consumers import ConsumerStore
from pkray.metadata.tags import TagStore
from tests.integration.readers import RustCatalog

COLUMNS = [
    ("dt", "STRING"),
    ("hour", "INT"),
    ("id", "BIGINT"),
    ("name", "STRING"),
    ("total", "BIGINT"),
    ("price", "DECIMAL(10, 2)"),
    ("day", "DATE"),
    ("ok", "BOOLEAN"),
]


@pytest.fixture
def table(catalog: pkray.Catalog) -> pkray.Table:
    made = catalog.create_table(
        "db.t",
        COLUMNS,
        ["dt", "hour", "id", "name"],
        ["dt", "hour"],
        {
            "bucket": "2",
            "merge-engine": "aggregation",
            "fields.total.aggregate-function": "sum",
            "fields.price.aggregate-function": "max",
            "fields.price.ignore-retract": "true",
            "changelog-producer": "lookup",
        },
        comment="sums",
    )
    with made.open_writer("writer") as writer:
        for number in range(3):
            writer.upsert([_row("a b/c", 1, i, number) for i in range(4)])
            writer.upsert([_row("z", 2, 9, number)])
            writer.commit(number)
    made.compact(full=True)
    made.upsert(
        [{**_row("z", 2, 9, 7), "total": None, "price": None}],
        commit_user="writer",
        commit_identifier=7,
    )
    return made


def _row(day: str, hour: int, key: int, number: int) -> dict[str, Any]:
    return {
        "dt": day,
        "hour": hour,
        "id": key,
        "name": f"name {key}, longer than what is kept",
        "total": number,
        "price": Decimal(f"{number}.50"),
        "day": dt.date(2024, 2, 1 + key),
        "ok": key % 2 == 0,
    }


def rows(found: pa.Table, by: list[str]) -> list[dict[str, Any]]:
    """In order; times without their zone, as Paimon has them."""
    for index, field in enumerate(found.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            plain = found.column(index).cast(pa.timestamp(field.type.unit))
            found = found.set_column(index, field.name, plain)
    listed = found.to_pylist()
    for row in listed:
        if "options" in row:  # in no order
            row["options"] = json.loads(row["options"])
    return sorted(listed, key=lambda row: [row[name] for name in by])


@pytest.mark.parametrize(
    ("name", "by", "without"),
    [
        ("snapshots", ["snapshot_id"], ["next_row_id"]),
        ("schemas", ["schema_id"], []),
        ("options", ["key"], []),
        ("manifests", ["file_name"], ["min_row_id", "max_row_id"]),
        ("files", ["file_path"], ["first_row_id", "write_cols"]),
        ("buckets", ["partition", "bucket"], []),
        (
            "partitions",
            ["partition"],
            ["created_at", "created_by", "updated_by", "options", "done", "total_buckets"],
        ),
        ("tags", ["tag_name"], []),
        ("branches", ["branch_name"], ["create_time"]),  # there, of the folder
        ("consumers", ["consumer_id"], []),
        ("aggregation_fields", ["field_name"], []),
    ],
)
def test_a_system_table_is_what_another_reader_shows(
    catalog: pkray.Catalog, table: pkray.Table, name: str, by: list[str], without: list[str]
) -> None:
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    store = table.location.open()
    TagStore(store).create("v1", snapshot)
    TagStore(store).create("v2", table.snapshot(2), 90_061_000)
    ConsumerStore(store).record("c", 3)
    BranchHistories(store, "db.t").create("b", "v1")
    theirs = RustCatalog(catalog.warehouse).sql(f"SELECT * FROM paimon.db.`t${name}`")
    theirs = theirs.drop_columns(without)
    ours = table.system(name).select(theirs.schema.names)
    assert ours.num_rows
    assert rows(ours, by) == rows(theirs, by)


def test_the_audit_log_is_the_changelog(table: pkray.Table) -> None:
    log = table.system("audit_log")
    assert log.schema.names == ["rowkind", *table.schema.names]
    changes = table.changelog()
    assert log.column("rowkind").to_pylist() == changes.column("_row_kind").to_pylist()
    assert log.select(table.schema.names) == changes.select(table.schema.names)


def test_the_read_optimized_table_is_the_last_full_compaction(catalog: pkray.Catalog) -> None:
    table = catalog.create_table(
        "db.ro", [("k", "INT"), ("v", "INT")], ["k"], options={"bucket": "1"}
    )
    assert table.system("ro").num_rows == 0
    with table.open_writer() as writer:
        writer.upsert([{"k": 1, "v": 1}, {"k": 2, "v": 1}])
        writer.commit(full_compact=True)
        writer.upsert([{"k": 1, "v": 2}, {"k": 3, "v": 2}])
        writer.commit()
    assert table.system("ro").to_pylist() == [{"k": 1, "v": 1}, {"k": 2, "v": 1}]
    assert table.to_arrow().num_rows == 3


@pytest.mark.parametrize(
    ("options", "v"),
    [({"deletion-vectors.enabled": "true"}, 2), ({"merge-engine": "first-row"}, 1)],
    ids=["deletion-vectors", "first-row"],
)
def test_the_read_optimized_table_is_all_that_needs_no_merging(
    catalog: pkray.Catalog, options: dict[str, str], v: int
) -> None:
    table = catalog.create_table(
        "db.ro", [("k", "INT"), ("v", "INT")], ["k"], options={"bucket": "1", **options}
    )
    with table.open_writer() as writer:
        writer.upsert(pa.table({"k": range(5_000), "v": [1] * 5_000}))
        writer.commit(full_compact=True)
        writer.upsert([{"k": 1, "v": 2}, {"k": 5_000, "v": 2}])
        writer.commit()
    table.compact(full=False)
    assert len(set(table.system("files").column("level").to_pylist())) == 2
    found = table.system("ro").sort_by("k")
    assert found.num_rows == 5_001
    assert found.slice(1, 1).to_pylist() == [{"k": 1, "v": v}]


def test_an_older_snapshot_has_its_own_files(table: pkray.Table) -> None:
    first = table.system("files", snapshot_id=1)
    assert set(first.column("level").to_pylist()) == {0}
    assert sum(first.column("record_count").to_pylist()) == 5
    assert table.system("partitions", snapshot_id=1).column("partition").to_pylist() == [
        "dt=a b/c/hour=1",
        "dt=z/hour=2",
    ]
    with pytest.raises(SnapshotNotFoundError):
        table.system("files", snapshot_id=99)


def test_deletion_vectors_are_table_indexes(catalog: pkray.Catalog) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    table = catalog.create_table("db.dv", [("k", "INT"), ("v", "INT")], ["k"], options=options)
    with table.open_writer() as writer:
        writer.upsert([{"k": k, "v": k} for k in range(1000)])
        writer.commit(full_compact=True)
        writer.delete([{"k": 5}])
        writer.commit()
    (index,) = table.system("table_indexes").to_pylist()
    assert (index["partition"], index["bucket"]) == ("{}", 0)
    assert index["index_type"] == "DELETION_VECTORS"
    assert [each["_CARDINALITY"] for each in index["dv_ranges"]] == [1]
    theirs = RustCatalog(catalog.warehouse).sql("SELECT * FROM paimon.db.`dv$table_indexes`")
    assert theirs.select(["file_name", "file_size"]).to_pylist() == [
        {name: index[name] for name in ("file_name", "file_size")}
    ]


def test_a_table_without_snapshots_has_system_tables(catalog: pkray.Catalog) -> None:
    table = catalog.create_table("db.empty", [("k", "INT")], ["k"])
    for name in ("snapshots", "files", "manifests", "partitions", "buckets", "audit_log", "ro"):
        assert table.system(name).num_rows == 0
    assert table.system("options").to_pylist() == [{"key": "bucket", "value": "1"}]
    assert table.system("schemas").num_rows == 1


def test_an_unknown_system_table_names_the_nearest(table: pkray.Table) -> None:
    with pytest.raises(TableNotFoundError, match="did you mean 'snapshots'"):
        table.system("snapshot")
