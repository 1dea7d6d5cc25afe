"""Arguments of a table's methods that are none: each is named, and nothing happens."""

import pytest

import pkray
from pkray.errors import InputError, OptionError, SchemaError


@pytest.fixture
def table(catalog):
    table = catalog.create_table("db.t", [("id", "BIGINT"), ("v", "INT")], ["id"])
    table.upsert([{"id": 1, "v": 1}])
    return table


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["nope"], "'nope' is not in the table"),
        ([5], r"columns\[0\] cannot be 5: give a list"),
        (["v", "v"], "'v' .* twice"),
    ],
)
def test_columns_that_a_lookup_has_not(table, columns, message):
    for look_up in (table.lookup, table.lookup_prefix):
        with pytest.raises(InputError, match=message):
            look_up([{"id": 1}], columns=columns)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda table: table.compact_dedicated(parallelism=0), "parallelism cannot be 0"),
        (lambda table: table.expire_snapshots(max_deletes=0), "max_deletes cannot be 0"),
        (lambda table: table.compact(buckets=[-1]), "give a list"),
        (lambda table: table.tags.create(" "), "name"),
        (lambda table: table.open_push(" ", 1), "commit_user cannot be"),
    ],
)
def test_values_that_cannot_be_meant(table, use, message):
    with pytest.raises(pkray.PkrayError, match=message):
        use(table)


@pytest.mark.parametrize("options", [{}, {"changelog-producer": "input"}])
def test_rows_without_columns_are_as_many(catalog, options):
    table = catalog.create_table("db.many", [("id", "BIGINT"), ("v", "INT")], ["id"], (), options)
    for first in range(3):
        table.upsert([{"id": first + more, "v": 1} for more in range(3)])
    keys = [{"id": 1}, {"id": 9}, {"id": 2}]
    assert table.to_arrow(columns=[]).num_rows == len(table.to_pandas(columns=[])) == 5
    assert sum(batch.num_rows for batch in table.to_batches(columns=[], filter="id > 2")) == 2
    assert table.lookup(keys, columns=[]).shape == (2, 0)
    assert table.lookup(keys, columns=[], visibility="committed", snapshot_id=1).shape == (2, 0)
    assert table.lookup_prefix(keys, columns=[]).shape == (2, 0)
    content = next(table.stream(from_snapshot=3, mode="from-snapshot-full", columns=[]).tables())
    assert content.shape == (5, 2)


@pytest.mark.parametrize("level", ["23", "999"])
@pytest.mark.parametrize("key", ["file.compression.zstd-level", "spill-compression.zstd-level"])
def test_a_zstd_level_that_there_is_not(catalog, table, key, level):
    with pytest.raises(OptionError, match=f"{key}' cannot be '{level}': zstd has levels 1 to 22"):
        catalog.create_table("db.x", [("id", "BIGINT")], ["id"], options={key: level})
    with pytest.raises(OptionError, match="zstd has levels 1 to 22"):
        table.alter.set_options({key: level})
    assert table.alter.set_options({key: "22"}).options[key] == "22"


@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
def test_a_function_that_a_table_neither_uses_nor_could(catalog, engine):
    columns = [("id", "BIGINT"), ("v", "STRING"), ("n", "INT")]
    options = {"merge-engine": engine, "fields.v.aggregate-function": "sum"}
    with pytest.raises(SchemaError, match=r"'v' is STRING, which .*'sum' cannot merge.*leave"):
        catalog.create_table("db.x", columns, ["id"], options=options)
    assert not catalog.table_exists("db.x")
    options = {"merge-engine": engine, "fields.n.aggregate-function": "sum"}
    assert catalog.create_table("db.x", columns, ["id"], options=options).options == {
        "bucket": "1", **options,
    }  # fmt: skip


def test_types_in_types_beyond_what_parquet_reads(catalog, table):
    deep = "ARRAY<" * 49 + "INT" + ">" * 49
    with pytest.raises(SchemaError, match="'v' has types in types over more than 48 levels"):
        catalog.create_table("db.x", [("id", "BIGINT"), ("v", deep)], ["id"])
    with pytest.raises(SchemaError, match="'w' has types in types"):
        table.alter.add_column("w", deep)
    with pytest.raises(SchemaError, match="more than 48 levels"):
        table.alter.add_column("w", "ARRAY<" * 300 + "INT" + ">" * 300)
    kept = catalog.create_table("db.x", [("id", "BIGINT"), ("v", deep[6:-1])], ["id"])
    value = 7
    for _ in range(48):
        value = [value]
    kept.upsert([{"id": 1, "v": value}])
    assert kept.to_arrow()["v"].to_pylist() == [value]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        "(" * 3000 + "id = 1" + ")" * 3000,
        "NOT " * 3000 + "id = 1",
        "id = " + "date(" * 30 + "id" + ")" * 30,
        "id = " + "ARRAY[" * 30 + "1" + "]" * 30,
    ],
)
def test_a_filter_of_brackets_in_brackets(table, text):
    with pytest.raises(InputError, match="too many brackets or NOTs in each other"):
        table.to_arrow(filter=text)
