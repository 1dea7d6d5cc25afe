"""Rows that lack columns of their table, or have more than it."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pkray
from pkray import errors

COLUMNS = [("id", "BIGINT NOT NULL"), ("v", "STRING"), ("n", "INT")]
Make = Callable[..., pkray.Table]


@pytest.fixture
def make(tmp_path) -> Iterator[Make]:
    with pkray.connect(tmp_path) as catalog:

        def make_table(columns: Any = COLUMNS, **options: str) -> pkray.Table:
            options = {key.replace("_", "-"): value for key, value in options.items()}
            return catalog.create_table("db.t", columns, primary_keys=["id"], options=options)

        yield make_table


def rows(table: pkray.Table) -> list[dict[str, Any]]:
    return table.to_arrow().sort_by("id").to_pylist()


SOME = {
    "dicts": [{"id": 1, "v": "a"}],
    "arrow": pa.table({"id": [1], "v": ["a"]}),
    "batch": pa.record_batch({"id": [1], "v": ["a"]}),
    "pandas": pd.DataFrame({"id": [1], "v": ["a"]}),
}
MORE = {
    "dicts": [{"id": 1, "v": "a", "n": 2, "x": 0.5}],
    "arrow": pa.table({"id": [1], "v": ["a"], "n": [2], "x": [0.5]}),
    "batch": pa.record_batch({"id": [1], "v": ["a"], "n": [2], "x": [0.5]}),
    "pandas": pd.DataFrame({"id": [1], "v": ["a"], "n": [2], "x": [0.5]}),
    "stream": pa.table({"id": [1], "v": ["a"], "n": [2], "x": [0.5]}).to_reader(),
}


@pytest.mark.parametrize("kind", SOME)
def test_rows_that_lack_a_column_are_refused_with_the_remedy(make, kind):
    table = make()
    with pytest.raises(errors.InputError, match="missing='null'"):
        table.upsert(SOME[kind])
    assert rows(table) == []


@pytest.mark.parametrize("kind", SOME)
def test_rows_that_lack_a_column_get_nulls_if_asked(make, kind):
    table = make()
    table.upsert(SOME[kind], missing="null")
    assert rows(table) == [{"id": 1, "v": "a", "n": None}]


def test_dicts_may_lack_different_columns(make):
    table = make()
    table.upsert([{"id": 1, "v": "a"}, {"id": 2, "n": 3}], missing="null")
    assert rows(table) == [{"id": 1, "v": "a", "n": None}, {"id": 2, "v": None, "n": 3}]


def test_keys_must_be_there_all_the_same(make):
    with pytest.raises(errors.InputError, match="primary key column 'id'"):
        make().upsert([{"v": "a", "n": 1}], missing="null")


def test_columns_without_nulls_must_be_there_all_the_same(make):
    table = make([("id", "INT NOT NULL"), ("v", "STRING NOT NULL")])
    with pytest.raises(errors.InputError, match="'v'"):
        table.upsert([{"id": 1}], missing="null")


def test_what_orders_rows_must_be_there_all_the_same(make):
    table = make(**{"sequence.field": "n"})
    with pytest.raises(errors.InputError, match="says which row is newer"):
        table.upsert([{"id": 1, "v": "a"}], missing="null")


def test_a_column_with_a_default_may_be_lacking(make):
    table = make(**{"fields.n.default-value": "7"})
    table.upsert([{"id": 1, "v": "a"}])
    assert rows(table) == [{"id": 1, "v": "a", "n": 7}]


def test_partial_updates_take_some_of_the_columns(make):
    table = make(merge_engine="partial-update")
    table.upsert([{"id": 1, "v": "a"}])
    table.upsert([{"id": 1, "n": 2}])
    assert rows(table) == [{"id": 1, "v": "a", "n": 2}]


@pytest.mark.parametrize("kind", ["dicts", "arrow", "batch", "pandas"])
def test_a_new_column_is_refused_unless_asked_for(make, kind):
    table = make()
    with pytest.raises(errors.InputError, match="'x' is not in the table"):
        table.upsert(MORE[kind])
    assert list(table.schema.names) == ["id", "v", "n"]


@pytest.mark.parametrize("kind", MORE)
def test_new_columns_are_added_if_asked(make, kind):
    table = make()
    table.upsert([{"id": 0, "v": "old", "n": 1}])
    table.upsert(MORE[kind], merge_schema=True)
    assert rows(table) == [
        {"id": 0, "v": "old", "n": 1, "x": None},
        {"id": 1, "v": "a", "n": 2, "x": 0.5},
    ]


def test_new_columns_have_the_types_of_arrow(make):
    table = make()
    more = pa.table({"id": [1], "v": ["a"], "n": [2], "tags": [["x", "y"]], "day": [None]})
    more = more.set_column(4, "day", pa.array([19_000], pa.date32()))
    table.upsert(more, merge_schema=True)
    types = {field.name: str(field.type) for field in table.schema.fields}
    assert types["tags"] == "ARRAY<STRING>"
    assert types["day"] == "DATE"


def test_rows_may_both_lack_columns_and_have_new_ones(make):
    table = make()
    table.upsert([{"id": 1, "x": True}], missing="null", merge_schema=True)
    assert rows(table) == [{"id": 1, "v": None, "n": None, "x": True}]


def test_a_writer_goes_on_after_a_column_was_added(make):
    table = make()
    with table.open_writer("job", missing="null", merge_schema=True) as writer:
        writer.upsert([{"id": 1, "v": "a"}])
        writer.commit(1)
        writer.upsert([{"id": 2, "x": 1}])
        writer.upsert([{"id": 3, "v": "c"}])
        writer.commit(2)
    assert rows(table) == [
        {"id": 1, "v": "a", "n": None, "x": None},
        {"id": 2, "v": None, "n": None, "x": 1},
        {"id": 3, "v": "c", "n": None, "x": None},
    ]


def test_rows_without_a_new_column_are_committed_first(make):
    table = make()
    with table.open_writer("job", missing="null", merge_schema=True) as writer:
        writer.upsert([{"id": 1, "v": "a"}])
        with pytest.raises(errors.SchemaChangedError, match="commit them first"):
            writer.upsert([{"id": 2, "x": 1}])
        writer.commit(1)
        writer.upsert([{"id": 2, "x": 1}])
        writer.commit(2)
    assert [row["id"] for row in rows(table)] == [1, 2]


def test_a_column_that_another_process_has_added_is_taken(make, tmp_path):
    table = make()
    with pkray.connect(tmp_path) as other:
        other.load_table("db.t").alter.add_column("x", "DOUBLE")
    table.upsert([{"id": 1, "v": "a", "n": 2, "x": 3}], merge_schema=True)
    assert rows(table) == [{"id": 1, "v": "a", "n": 2, "x": 3.0}]
    assert table.schema.id == 1


def test_the_column_of_row_kinds_is_not_added(make):
    table = make()
    with table.open_writer(merge_schema=True) as writer:
        writer.write([{"id": 1, "v": "a", "n": 2, "x": 1, "op": "+I"}], row_kinds="op")
        writer.commit()
    assert list(table.schema.names) == ["id", "v", "n", "x"]


def test_new_columns_with_dynamic_buckets(make):
    table = make(bucket="-1")
    table.upsert([{"id": 1, "v": "a", "n": 2}])
    table.upsert([{"id": 1, "v": "b", "n": 2, "x": 1}], merge_schema=True)
    assert rows(table) == [{"id": 1, "v": "b", "n": 2, "x": 1}]


@pytest.mark.parametrize(
    ("value", "error"),
    [(None, errors.UnsupportedError), (object(), errors.InputError), (1 + 2j, errors.InputError)],
)
def test_a_new_column_without_a_type_is_refused(make, value, error):
    table = make()
    with pytest.raises(error, match="'x'"):
        table.upsert([{"id": 1, "v": "a", "n": 2, "x": value}], merge_schema=True)
    assert list(table.schema.names) == ["id", "v", "n"]


def test_new_columns_of_pandas_without_a_type_are_refused(make):
    frame = pd.DataFrame({"id": [1], "v": ["a"], "n": [2], "x": [np.complex64(1)]})
    with pytest.raises(errors.InputError, match="'x'"):
        make().upsert(frame, merge_schema=True)


def test_a_column_that_no_table_can_have_is_refused(make):
    with pytest.raises(errors.SchemaError, match="_SEQUENCE_NUMBER"):
        make().upsert([{"id": 1, "v": "a", "n": 2, "_SEQUENCE_NUMBER": 1}], merge_schema=True)


def test_rows_are_deleted_by_a_filter(make):
    table = make(bucket="3")
    table.upsert([{"id": i, "v": str(i), "n": i % 2} for i in range(10)])
    snapshot = table.delete(where="n = 1 AND id > 2")
    assert snapshot == table.latest_snapshot()
    assert [row["id"] for row in rows(table)] == [0, 1, 2, 4, 6, 8]


def test_a_filter_that_finds_nothing_makes_no_snapshot(make):
    table = make()
    before = table.upsert([{"id": 1, "v": "a", "n": 1}])
    assert table.delete(where="id > 5") is None
    assert table.latest_snapshot() == before


def test_rows_are_deleted_by_a_filter_whatever_orders_them(make):
    table = make(**{"sequence.field": "n"})
    table.upsert([{"id": 1, "v": "a", "n": 5}, {"id": 2, "v": "b", "n": 9}])
    table.delete(where="v = 'b'")
    assert rows(table) == [{"id": 1, "v": "a", "n": 5}]


@pytest.mark.parametrize("given", [{}, {"keys": [{"id": 1}], "where": "id = 1"}])
def test_keys_or_a_filter_say_what_is_deleted(make, given):
    with pytest.raises(errors.OptionError, match="delete takes keys"):
        make().delete(**given)
