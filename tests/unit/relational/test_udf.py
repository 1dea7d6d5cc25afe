"""Users' functions over Arrow arrays: results are checked, failures name the function."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pkray.errors import EvaluationError, QueryError
from pkray.relational.functions.aggregates.kernels import grouped_aggregate
from pkray.relational.plan.expressions import AggregateCall, Cast, ColumnRef
from pkray.relational.udf import Udf, udaf, udf, udtf
from pkray.schema.types import DataType

X = ColumnRef(DataType("INT"), "x")


@udf("BIGINT", arguments=["BIGINT"])
def doubled(x: pa.Array) -> pa.Array:
    return pc.multiply(x, 2)


@udtf("word STRING, length INT")
def words(text: pa.Array) -> pa.RecordBatch:
    parts = pc.split_pattern(text, " ")
    word = pc.list_flatten(parts)
    rows = pc.list_parent_indices(parts)
    return pa.record_batch({"_row": rows, "word": word, "length": pc.utf8_length(word)})


@udaf("DOUBLE")
def spread(x: pa.Array) -> float:
    return float(pc.max(x).as_py() - pc.min(x).as_py())


def test_a_scalar_function_casts_its_arguments_and_gives_its_type() -> None:
    call = doubled.call((X,))
    assert (call.type, call.arguments) == (DataType("BIGINT"), (Cast(DataType("BIGINT"), X),))
    assert doubled.evaluate([pa.array([1, None])], 2).to_pylist() == [2, None]
    assert doubled.evaluate([pa.scalar(4)], 3).to_pylist() == [8, 8, 8]
    with pytest.raises(QueryError, match="doubled takes 1 arguments; 2 given"):
        doubled.call((X, X))


@pytest.mark.parametrize(
    ("function", "result", "message"),
    [
        (lambda x: 1 / 0, "INT", "'f' failed: ZeroDivisionError: division by zero"),
        (lambda x: x.slice(1), "INT", "it gave 2 values for 3 rows"),
        (lambda x: x, "BOOLEAN NOT NULL", "it gave NULL; its type is BOOLEAN NOT NULL"),
        (lambda x: pa.array(["a", "b", "c"]), "INT", "its result is not INT"),
        (lambda x: None, "INT", "its result is not INT"),
    ],
)
def test_what_a_function_gives_is_checked(
    function: Callable[..., Any], result: str, message: str
) -> None:
    with pytest.raises(EvaluationError, match=message):
        udf(result, name="f")(function).evaluate([pa.array([1, None, 3])], 3)


def test_a_table_function_gives_rows_for_each_row() -> None:
    rows, (word, length) = words.expand([pa.array(["a bc", None, "d"])], 3)
    assert rows.tolist() == [0, 0, 2]
    assert (word.to_pylist(), length.to_pylist()) == (["a", "bc", "d"], [1, 2, 1])


def test_rows_of_a_table_function_are_put_in_the_order_of_what_they_are_of() -> None:
    shuffled = udtf("v STRING", name="f")(
        lambda x: pa.record_batch({"v": ["b", "a", "c"], "_row": [1, 0, 1]})
    )
    rows, (values,) = shuffled.expand([pa.array([1, 2])], 2)
    assert (rows.tolist(), values.to_pylist()) == ([0, 1, 1], ["a", "b", "c"])


def test_a_table_function_may_give_lists() -> None:
    lists = pa.array([["a"], [], ["b", "c"]])
    structs = pa.array([[{"v": "a"}], [], [{"v": "b"}, {"v": "c"}]])
    for result in (lists, structs, pa.record_batch({"v": lists})):
        listed = udtf("v STRING", name="f")(lambda x, result=result: result)
        rows, (values,) = listed.expand([pa.array([1, 2, 3])], 3)
        assert (rows.tolist(), values.to_pylist()) == ([0, 2, 2], ["a", "b", "c"])


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (pa.record_batch({"w": ["a"], "_row": [0]}), "no column 'v'; it has w, _row"),
        (pa.record_batch({"v": ["a"], "_row": [2]}), "one of the 2 given"),
        (pa.record_batch({"v": ["a"]}), "needs a column _row"),
        (7, "it gave a int; give a pa.RecordBatch"),
        (pa.array([["a"]]), "it gave 1 lists for 2 rows"),
    ],
)
def test_what_a_table_function_gives_is_checked(result: Any, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        udtf("v STRING", name="f")(lambda x: result).expand([pa.array([1, 2])], 2)


def aggregated(function: Udf) -> pa.Array:
    call = AggregateCall("udf", ("x",), function.type, udf=function)
    return grouped_aggregate(call, np.array([0, 2, 0, 2]), 3, [pa.array([1, 5, 4, None])])


def test_an_aggregate_takes_the_rows_of_one_group() -> None:
    assert aggregated(spread).to_pylist() == [3.0, None, 0.0]


def test_a_failing_aggregate_is_named() -> None:
    with pytest.raises(EvaluationError, match="'f' failed: KeyError"):
        aggregated(udaf("INT", name="f")(lambda x: {}[1]))
