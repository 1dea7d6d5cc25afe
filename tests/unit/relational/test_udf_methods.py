"""Users' functions in the methods of relations."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pkray.errors import QueryError
from pkray.relational import from_arrow
from pkray.relational.api import func as f
from pkray.relational.udf import udaf, udf, udtf

WORDS = from_arrow({"id": [1, 2, 3], "text": ["a bc", "d", None]}, name="words")


@udf("BIGINT")
def doubled(x):
    return pc.multiply(x, 2)


@udf("ROW<id BIGINT, long BOOLEAN>")
def measured(x, text):
    parts = [x, pc.greater(pc.utf8_length(text), 1)]
    return pa.StructArray.from_arrays(parts, names=["id", "long"])


@udtf("word STRING")
def split(text):
    parts = pc.split_pattern(text, " ")
    return pa.record_batch({"_row": pc.list_parent_indices(parts), "word": pc.list_flatten(parts)})


@udaf("DOUBLE")
def spread(x):
    return float(pc.max(x).as_py() - pc.min(x).as_py())


def rows(relation):
    return [tuple(row.values()) for row in relation.to_arrow().to_pylist()]


def test_a_scalar_function_is_called_on_columns_and_text():
    assert rows(WORDS.select(a=doubled(WORDS.id) + 1, b=doubled("id + 1"))) == [
        (3, 4),
        (5, 6),
        (7, 8),
    ]
    assert rows(WORDS.filter(doubled(doubled("id")) > 4).select("id")) == [(2,), (3,)]


def test_map_makes_a_row_of_each_row_and_flat_map_rows():
    assert rows(WORDS.map(measured)) == [(1, True), (2, False), (3, None)]
    assert rows(WORDS.flat_map(split, "text")) == [("a",), ("bc",), ("d",)]


def test_an_aggregate_is_called_in_groups():
    assert rows(WORDS.group_by().agg(s=spread("id"))) == [(2.0,)]


def test_a_function_of_a_taken_name_goes_by_another():
    @udf("BIGINT")
    def upper(x):
        return x

    assert rows(WORDS.select(upper("id"), f.upper("text")))[0] == (1, "A BC")


def test_functions_of_joined_relations_come_along():
    left = WORDS.select("id", d=doubled("id"))
    right = WORDS.select(doubled("id").alias("id"), n="id")
    assert rows(left.join(right, "id")) == [(2, 4, 1)]


def test_functions_of_another_kind_are_refused():
    with pytest.raises(QueryError, match="gives a ROW"):
        WORDS.map(doubled, "id")
    with pytest.raises(QueryError, match="is none"):
        WORDS.flat_map(doubled, "id")
