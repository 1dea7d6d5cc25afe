"""Rows in memory as relations, in the forms that people have them in."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pkray.errors import InputError, SchemaError, UnsupportedError
from pkray.relational import from_arrow

TABLE = pa.table({"id": pa.array([1, 2], pa.int32()), "s": ["a", None]})


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        pa.table({"id": TABLE["id"], "s": TABLE["s"].cast(pa.large_string())}),
        pa.table({"id": TABLE["id"], "s": TABLE["s"].combine_chunks().dictionary_encode()}),
        {"id": TABLE["id"], "s": ["a", None]},
        pd.DataFrame({"id": np.array([1, 2], np.int32), "s": ["a", None]}),
    ],
    ids=["table", "batch", "reader", "large", "dictionary", "mapping", "pandas"],
)
def test_rows_of_every_form_are_the_same_relation(data):
    relation = from_arrow(data)
    assert [str(field) for field in relation.fields] == ["id INT", "s STRING"]
    for _ in range(2):  # a reader is read but once
        assert relation.to_arrow().equals(TABLE)


def test_dicts_may_lack_columns():
    assert from_arrow([{"a": 1}, {"b": "x"}]).to_arrow().to_pylist() == [
        {"a": 1, "b": None},
        {"a": None, "b": "x"},
    ]


def test_not_null_columns_stay_so():
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    assert from_arrow(pa.table({"id": [1]}, schema=schema)).schema == schema


def test_statistics_are_of_the_rows():
    source = from_arrow(TABLE).plan.source
    assert source.row_count() == 2
    assert (source.statistics("id").least, source.statistics("id").greatest) == (1, 2)
    assert source.statistics("s").nulls == 1


def test_no_rows_are_a_relation_too():
    empty = from_arrow(TABLE.slice(0, 0))
    assert empty.to_arrow().equals(TABLE.slice(0, 0))
    assert empty.count() == 0


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (5, InputError),
        ([], InputError),
        ("rows", InputError),
        ({"a": [1], "b": [1, 2]}, InputError),
        (pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), SchemaError),
        (pa.table({"a": pa.array([1], pa.uint64())}), UnsupportedError),
    ],
)
def test_what_is_no_rows_is_refused(data, error):
    with pytest.raises(error):
        from_arrow(data)


def _wrong_text(kind: pa.DataType) -> pa.Array:
    width = pa.int64() if kind == pa.large_string() else pa.int32()
    offsets = pa.array([0, 1, 2], width).buffers()[1]
    return pa.Array.from_buffers(kind, 2, [None, offsets, pa.py_buffer(b"a\xff")])


@pytest.mark.parametrize(
    "column",
    [
        _wrong_text(pa.string()),
        _wrong_text(pa.large_string()),
        pa.StructArray.from_arrays([_wrong_text(pa.string())], ["x"]),
        pa.ListArray.from_arrays([0, 2], _wrong_text(pa.string())),
        pa.DictionaryArray.from_arrays([0, 1], _wrong_text(pa.string())),
    ],
    ids=lambda column: str(column.type)[:12],
)
def test_text_that_is_no_utf_8_is_refused_with_its_column(column):
    with pytest.raises(InputError, match=r"column 'a' .* UTF-8"):
        from_arrow(pa.table({"a": column}))


@pytest.mark.parametrize(
    "data", [[{"a": 2**70}], [{"a": {"b": 2**70}}], {"a": [-(2**70)]}, [{"a": [2**70]}]], ids=str
)
def test_a_whole_number_beyond_64_bits_is_refused(data):
    with pytest.raises(InputError, match="beyond 64 bits"):
        from_arrow(data)
