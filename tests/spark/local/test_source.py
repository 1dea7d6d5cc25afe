"""Tables as DataFrames."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import pkray.spark
from pkray.errors import InputError, SnapshotNotFoundError
from tests.spark.tables import SCHEMA, create, rows, spark_rows

WHEN = dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)
SCALARS = {
    "k": ("BIGINT NOT NULL", 1),
    "bool": ("BOOLEAN", True),
    "tiny": ("TINYINT", -128),
    "small": ("SMALLINT", 32_767),
    "whole": ("INT", -(2**31)),
    "big": ("BIGINT", 2**63 - 1),
    "single": ("FLOAT", 1.5),
    "double_": ("DOUBLE", -0.1),
    "dec": ("DECIMAL(10, 2)", Decimal("-12345678.90")),
    "dec38": ("DECIMAL(38, 10)", Decimal("1234567890123456789012345678.0123456789")),
    "chars": ("CHAR(3)", "abc"),
    "varchars": ("VARCHAR(9)", "äöü"),
    "text": ("STRING", "naïve 日本"),
    "bin": ("BINARY(2)", b"\x00\xff"),
    "bytes_": ("BYTES", b""),
    "day": ("DATE", dt.date(1969, 7, 20)),
    "clock": ("TIME(3)", dt.time(23, 59, 59, 999_000)),
    "ts3": ("TIMESTAMP(3)", WHEN),
    "ts6": ("TIMESTAMP(6)", WHEN),
    "ts9": ("TIMESTAMP(9)", WHEN),
    "ltz3": ("TIMESTAMP_LTZ(3)", WHEN.replace(tzinfo=dt.UTC)),
    "ltz6": ("TIMESTAMP_LTZ(6)", WHEN.replace(tzinfo=dt.UTC)),
    "ltz9": ("TIMESTAMP_LTZ(9)", WHEN.replace(tzinfo=dt.UTC)),
}
"""A column of each type, and a value."""
TYPES = [(name, kind) for name, (kind, _) in SCALARS.items()]
VALUES = {name: value for name, (_, value) in SCALARS.items()}
NULLS = {name: 2 if name == "k" else None for name in VALUES}


def write(table, data, **arguments):
    with table.open_writer("test") as writer:
        writer.upsert(data)
        return writer.commit(**arguments)


def test_every_scalar_type_survives_the_way_through_spark(spark, catalog):
    table = create(catalog, schema=TYPES, primary_keys=["k"])
    copy = create(catalog, "db.copy", schema=TYPES, primary_keys=["k"])
    write(table, pa.Table.from_pylist([VALUES, NULLS], table.arrow_schema))
    pkray.spark.ingest(pkray.spark.read(spark, table), copy)
    assert copy.to_arrow().sort_by("k").to_pylist() == [VALUES, NULLS]


def test_spark_sees_the_tables_types(spark, catalog):
    table = create(catalog, schema=TYPES, primary_keys=["k"])
    types = {
        field.name: field.dataType.simpleString() for field in pkray.spark.read(spark, table).schema
    }
    assert types["dec38"] == "decimal(38,10)"
    assert types["clock"] == "time(6)"
    assert types["ts9"] == "timestamp_ntz"
    assert types["ltz9"] == "timestamp"
    assert types["bytes_"] == "binary"


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("amount > 1.5", [2, 3]),
        ("id = 2 AND name = 'b'", [2]),
        ("id IN (1, 3) OR name = 'b'", [1, 2, 3]),
        ("name IS NULL", [3]),
        ("name <> 'a'", [2]),
    ],
)
def test_a_where_keeps_what_spark_would(spark, catalog, where, ids):
    table = create(catalog)
    write(table, rows((1, "a", 1.0), (2, "b", 2.0), (3, None, 3.0)))
    df = pkray.spark.read(spark, table).where(where)
    assert sorted(row.id for row in df.collect()) == ids


def test_a_dataframe_stays_on_its_snapshot(spark, catalog):
    table = create(catalog)
    write(table, rows((1, "a", 1.0)))
    df = pkray.spark.read(spark, table)
    write(table, rows((1, "b", 2.0)))
    assert spark_rows(df).equals(rows((1, "a", 1.0)).cast(spark_rows(df).schema))
    assert [row.name for row in pkray.spark.read(spark, table).collect()] == ["b"]


def test_a_table_without_a_snapshot_is_empty(spark, catalog):
    df = pkray.spark.read(spark, create(catalog))
    assert (df.columns, df.count()) == (SCHEMA.names, 0)


def test_mistakes_are_found_before_spark_runs(spark, catalog):
    table = create(catalog)
    write(table, rows((1, "a", 1.0)))
    with pytest.raises(pkray.PkrayError, match="'nome'"):
        pkray.spark.read(spark, table, columns=["nome"])
    with pytest.raises(InputError):
        pkray.spark.read(spark, table, filter="nome = 1")
    with pytest.raises(SnapshotNotFoundError):
        pkray.spark.read(spark, table, snapshot_id=99)


def test_by_format_and_options(spark, catalog):
    table = create(catalog)
    write(table, rows((1, "a", 1.0), (2, "b", 2.0)))
    pkray.spark.register(spark)
    df = (
        spark.read.format("pkray")
        .option("path", catalog.warehouse)
        .option("table", "db.t")
        .option("columns", "name, id")
        .option("filter", "id > 1")
        .load()
    )
    assert [tuple(row) for row in df.collect()] == [("b", 2)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "somewhere"}, "table"),
        ({"path": "somewhere", "table": "db.t", "snapshot-id": "x"}, "snapshot-id"),
        ({"path": "somewhere", "table": "db.t", "filtre": "x"}, "filtre"),
    ],
)
def test_wrong_options_are_named(spark, options, message):
    pkray.spark.register(spark)
    with pytest.raises(Exception, match=message):
        spark.read.format("pkray").options(**options).load()


NESTED = [
    ("k", "BIGINT NOT NULL"),
    ("tags", "ARRAY<STRING>"),
    ("counts", "MAP<STRING, INT>"),
    ("r", "ROW<x INT, y ARRAY<ROW<z STRING, w DECIMAL(5, 2)>>, t TIMESTAMP(6)>"),
    ("days", "MAP<INT, ROW<d DATE>>"),
]
NESTED_ROWS = [
    {
        "k": 1,
        "tags": ["a", None],
        "counts": [("one", 1), ("none", None)],
        "r": {"x": 1, "y": [{"z": "q", "w": Decimal("1.25")}], "t": WHEN},
        "days": [(7, {"d": dt.date(2024, 2, 29)})],
    },
    {"k": 2, "tags": None, "counts": None, "r": None, "days": None},
]


@pytest.mark.slow
def test_nested_types_survive_the_way_through_spark(spark, catalog):
    table = create(catalog, schema=NESTED, primary_keys=["k"])
    copy = create(catalog, "db.copy", schema=NESTED, primary_keys=["k"])
    write(table, pa.Table.from_pylist(NESTED_ROWS, table.arrow_schema))
    df = pkray.spark.read(spark, table)
    pkray.spark.ingest(df, copy)
    assert copy.to_arrow().sort_by("k") == table.to_arrow().sort_by("k")
    inside = df.selectExpr("k", "r.y[0].w AS w", "counts['one'] AS c").where("r.x = 1").collect()
    assert [tuple(row) for row in inside] == [(1, Decimal("1.25"), 1)]


def test_older_moments(spark, catalog):
    table = create(catalog)
    first = write(table, rows((1, "a", 1.0)))
    table.tags.create("v1")
    write(table, rows((2, "b", 2.0)))
    for moment in ({"snapshot_id": 1}, {"tag": "v1"}, {"timestamp": first.time_millis}):
        assert [row.id for row in pkray.spark.read(spark, table, **moment).collect()] == [1]


def test_a_where_leaves_out_partitions_and_buckets(spark, catalog):
    schema = pa.schema([("day", pa.string()), ("id", pa.int64())])
    table = create(catalog, schema=schema, primary_keys=["day", "id"], partition_keys=["day"])
    write(table, pa.table({"day": ["a", "b"] * 50, "id": range(100)}))

    def tasks(where):
        return pkray.spark.read(spark, table).where(where).rdd.getNumPartitions()

    assert [tasks(where) for where in ("id >= 0", "day = 'a'", "day = 'a' AND id = 6")] == [4, 2, 1]


def test_a_system_table(spark, catalog):
    table = create(catalog, buckets=1)
    write(table, rows((1, "a", 1.0), (2, "b", 2.0)))
    files = catalog.load_table("db.t$files")
    df = pkray.spark.read(spark, files, columns=["record_count", "level"], filter="level = 0")
    assert [tuple(row) for row in df.collect()] == [(2, 0)]
    log = spark.read.format("pkray").options(path=catalog.warehouse, table="db.t$audit_log").load()
    assert sorted(tuple(row)[:2] for row in log.where("id = 2").collect()) == [("+I", 2)]
    with pytest.raises(InputError, match="'lvl'"):
        pkray.spark.read(spark, files, filter="lvl = 0")


def test_what_is_no_dataframe_is_not_ingested(spark, catalog):
    table = create(catalog)
    with pytest.raises(InputError, match=r"a Table: write rows of Python by table\.open_writer"):
        pkray.spark.ingest(table.to_arrow(), table)
