"""Tables of each merge engine: flushes, levels, changelogs and reads together."""

from typing import Any

import pyarrow as pa
import pytest

import pkray
from pkray.errors import MergeError, SchemaError

ROWS = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int32())])


def create(catalog: pkray.Catalog, schema: pa.Schema = ROWS, **options: str) -> pkray.Table:
    return catalog.create_table(
        "db.t", schema, primary_keys=["k"], options={"bucket": "1", **options}
    )


def commit(
    table: pkray.Table,
    rows: list[dict[str, Any]],
    kinds: list[str] | None = None,
    full: bool = False,
) -> None:
    data = pa.Table.from_pylist(rows, schema=table.arrow_schema)
    data = data.append_column("kind", pa.array(kinds or ["+I"] * len(rows)))
    with table.open_writer() as writer:
        writer.write(data, row_kinds="kind")
        writer.commit(full_compact=full)


def content(table: pkray.Table, columns: list[str] | None = None) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_arrow(columns=columns).to_pylist()]


def changes(table: pkray.Table) -> list[tuple[Any, ...]]:
    found = table.changelog().drop_columns(["_snapshot_id"])
    return [tuple(row.values()) for row in found.to_pylist()]


def replayed(table: pkray.Table) -> list[tuple[Any, ...]]:
    rows: dict[Any, tuple[Any, ...]] = {}
    for kind, key, *values in changes(table):
        if kind in ("+I", "+U"):
            rows[key] = (key, *values)
        else:
            assert rows.pop(key) == (key, *values)
    return [rows[key] for key in sorted(rows)]


def test_options_that_change_nothing_are_said_once_in_the_log(
    catalog: pkray.Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = create(catalog, **{"fields.v.aggregate-function": "sum"})
    assert (
        "option 'fields.v.aggregate-function' = 'sum' changes nothing: it needs merge-engine = "
        "aggregation" in caplog.text
    )
    caplog.clear()
    table.alter.set_options({"changelog-producer.row-deduplicate": "true"})
    assert [record.args[0] for record in caplog.records] == ["changelog-producer.row-deduplicate"]


@pytest.mark.parametrize("producer", ["none", "lookup", "full-compaction"])
def test_counts_add_up_over_flushes_and_levels(catalog: pkray.Catalog, producer: str) -> None:
    table = create(
        catalog,
        **{
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "count",
            "changelog-producer": producer,
        },
    )
    for number in range(8):
        keys = [{"k": key, "v": number * 100} for key in range(number % 3, 4)]
        commit(table, [*keys, {"k": 0, "v": None}, {"k": 1, "v": 7}], full=number == 5)
    assert content(table) == [(0, 3), (1, 14), (2, 8), (3, 8)]
    commit(table, [{"k": 3, "v": 5}], ["-D"], full=True)
    assert content(table)[3] == (3, 7)


@pytest.mark.parametrize("levels", [{}, {"num-levels": "6"}])
def test_lookup_images_of_several_levels_are_not_added_twice(
    catalog: pkray.Catalog, levels: dict[str, str]
) -> None:
    table = create(
        catalog,
        **{
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "sum",
            "changelog-producer": "lookup",
            **levels,
        },
    )
    for number in range(7):
        many = range(2_000) if number == 0 else range(number)
        commit(table, [{"k": key, "v": 1} for key in many])
        assert content(table) == replayed(table)
    of_files = set(table.files().column("level").to_pylist())
    assert (len(of_files) > 1) == bool(levels)
    assert content(table)[:7] == [(0, 7), (1, 6), (2, 5), (3, 4), (4, 3), (5, 2), (6, 1)]
    found = table.lookup(pa.table({"k": pa.array([0, 3, 6], pa.int32())}))
    assert found.column("v").to_pylist() == [7, 4, 1]


@pytest.mark.parametrize("columns", [["a"], ["k", "s"], None])
def test_columns_of_a_sequence_group_are_read_alone(
    catalog: pkray.Catalog, columns: list[str] | None
) -> None:
    schema = pa.schema([*ROWS, ("g", pa.int32()), ("a", pa.string()), ("s", pa.int64())])
    table = create(
        catalog,
        schema,
        **{
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "a,s",
            "fields.s.aggregate-function": "sum",
        },
    )
    commit(table, [{"k": 1, "v": 1, "g": 5, "a": "five", "s": 1}])
    commit(table, [{"k": 1, "v": None, "g": 3, "a": "three", "s": 2}])
    row = {"k": 1, "v": 1, "g": 5, "a": "five", "s": 3}
    assert table.to_arrow(columns=columns).to_pylist() == [
        {name: row[name] for name in columns or row}
    ]


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_first_row_keeps_one_row_a_key_in_files_too(catalog: pkray.Catalog, producer: str) -> None:
    table = create(catalog, **{"merge-engine": "first-row", "changelog-producer": producer})
    for number in range(6):
        commit(table, [{"k": key, "v": number} for key in range(number, -1, -1)])
    assert content(table) == [(key, key) for key in range(6)]
    files = table.files()
    assert sum(files.column("record_count").to_pylist()) == 6
    if producer == "lookup":
        assert changes(table) == [("+I", key, key) for key in range(6)]


def test_first_row_refuses_deletes_at_commit(catalog: pkray.Catalog) -> None:
    table = create(catalog, **{"merge-engine": "first-row"})
    with pytest.raises(MergeError, match="ignore-delete"):
        commit(table, [{"k": 1, "v": 1}], ["-D"])
    assert table.latest_snapshot() is None


def test_a_lone_delete_of_partial_update_is_refused_when_it_is_merged(
    catalog: pkray.Catalog,
) -> None:
    table = create(catalog, **{"merge-engine": "partial-update"})
    commit(table, [{"k": 1, "v": 1}])
    commit(table, [{"k": 1, "v": None}], ["-D"])
    with pytest.raises(MergeError, match="partial-update"):
        content(table)


def test_uncommitted_sums_are_seen_by_latest_lookups(catalog: pkray.Catalog) -> None:
    table = create(catalog, **{"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"})
    commit(table, [{"k": 1, "v": 5}])
    with table.open_writer() as writer:
        writer.upsert([{"k": 1, "v": 2}, {"k": 1, "v": 3}, {"k": 2, "v": 1}])
        found = table.lookup([{"k": 1}, {"k": 2}], visibility="latest")
        assert sorted(found.column("v").to_pylist()) == [1, 10]
        writer.commit()
    assert content(table) == [(1, 10), (2, 1)]


def test_a_function_that_is_not_for_its_column_is_refused_as_the_table_is_created(
    catalog: pkray.Catalog,
) -> None:
    with pytest.raises(SchemaError, match="'v' is INT; the aggregate function 'collect'"):
        create(catalog, **{"merge-engine": "aggregation", "fields.v.aggregate-function": "collect"})
    assert catalog.list_tables() == []


def test_a_function_that_is_not_for_its_column_is_refused_as_options_change(
    catalog: pkray.Catalog,
) -> None:
    table = create(catalog, **{"merge-engine": "aggregation"})
    with pytest.raises(SchemaError, match="'v' is INT; the aggregate function 'merge_map'"):
        table.alter.set_options({"fields.v.aggregate-function": "merge_map"})
    assert table.system("schemas").num_rows == 1


def test_that_a_sum_of_texts_will_fail_is_said_as_the_table_is_created(
    catalog: pkray.Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    texts = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string())])
    create(catalog, texts, **{"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"})
    assert "column 'v' is STRING, which the aggregate function 'sum' cannot merge" in caplog.text


def test_that_compactions_show_is_said_once_as_the_table_is_created(
    catalog: pkray.Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = create(catalog, **{"sequence.field": "v"})
    assert "the content of table db.t depends on compactions: a compaction of all" in caplog.text
    caplog.clear()
    table.alter.set_options({"num-levels": "3"})
    assert caplog.text == ""


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_a_row_after_a_delete_of_its_key_begins_anew_in_every_visibility(
    catalog: pkray.Catalog, producer: str
) -> None:
    table = create(
        catalog,
        **{
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "sum",
            "aggregation.remove-record-on-delete": "true",
            "changelog-producer": producer,
        },
    )
    commit(table, [{"k": 1, "v": 100}])
    with table.open_writer() as writer:
        writer.delete([{"k": 1}])
        writer.upsert([{"k": 1, "v": 5}])
        assert table.lookup([{"k": 1}], visibility="latest").column("v").to_pylist() == [5]
        writer.commit()
    assert table.lookup([{"k": 1}], visibility="committed").column("v").to_pylist() == [5]
    assert content(table) == [(1, 5)]
    if producer == "lookup":
        assert changes(table)[1:] == [("-U", 1, 100), ("+U", 1, 5)]


def test_latest_merges_late_rows_with_those_of_all_files_at_once(catalog: pkray.Catalog) -> None:
    schema = pa.schema([*ROWS, ("n", pa.int32())])
    options = {"merge-engine": "partial-update", "sequence.field": "n", "write-only": "true"}
    table = create(catalog, schema, **options)
    commit(table, [{"k": 1, "v": 1, "n": 1}])
    commit(table, [{"k": 1, "v": None, "n": 5}])
    with table.open_writer() as writer:
        writer.upsert([{"k": 1, "v": 3, "n": 3}])
        assert table.lookup([{"k": 1}], visibility="latest").to_pylist() == [
            {"k": 1, "v": 3, "n": 5}
        ]
        writer.commit()
    assert content(table) == [(1, 3, 5)]
