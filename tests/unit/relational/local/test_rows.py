"""Nodes that look at one row at a time."""

from typing import Any

import pyarrow as pa
import pytest

from pkray.errors import EvaluationError, UnsupportedError
from pkray.relational.local.catalogue import run
from pkray.relational.plan import nodes
from pkray.relational.plan.expressions import all_of
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.udf import udf
from pkray.schema.types import DataType
from tests.unit.relational.local.inputs import call, col, lit, result, rows_of

ROWS = [(1, 5), (2, None), (3, 1), (None, 0)]
ALWAYS = lit(True, "BOOLEAN NOT NULL")
SOURCE = rows_of("a INT, b INT", ROWS)


def test_filters_keep_rows_for_which_the_condition_is_true() -> None:
    assert result(nodes.Filter(SOURCE, call("less", col("a"), col("b")))) == [(1, 5)]
    assert result(nodes.Filter(SOURCE, lit(True, "BOOLEAN NOT NULL"))) == ROWS
    assert result(nodes.Filter(SOURCE, lit(None, "BOOLEAN"))) == []


def test_conditions_that_may_fail_are_asked_of_the_rows_that_are_left() -> None:
    source = rows_of("b DOUBLE, s STRING", [(0.0, "x"), (2.0, "x"), (None, "x"), (4.0, "y")])
    b, half = col("b", "DOUBLE"), lit(0.5, "DOUBLE NOT NULL")
    divided = call("divide", lit(1.0, "DOUBLE NOT NULL"), b, kind="DOUBLE")
    asked = call("equal", divided, half)
    with pytest.raises(EvaluationError, match="0"):
        result(nodes.Filter(source, asked))
    guard = call("not_equal", b, lit(0.0, "DOUBLE NOT NULL"))
    text = call("equal", col("s", "STRING"), lit("x", "STRING NOT NULL"))
    for parts in ((guard, text, asked), (asked, text, guard)):
        assert result(nodes.Filter(source, all_of(parts))) == [(2.0, "x")]


def test_projections_compute_rename_and_repeat_columns() -> None:
    plan = nodes.Project(SOURCE, (("x", col("b")), ("one", lit(1)), ("y", col("b"))))
    assert result(plan) == [(b, 1, b) for _, b in ROWS]


def test_a_calculation_filters_before_it_computes() -> None:
    columns = (("x", call("divide", lit(1.0, "DOUBLE"), col("b", "DOUBLE"), kind="DOUBLE")),)
    source = rows_of("b DOUBLE", [(0.0,), (2.0,), (None,)])
    condition = call("less", lit(0.0, "DOUBLE"), col("b", "DOUBLE"))
    assert result(nodes.Calc(source, columns, condition)) == [(0.5,)]
    assert result(nodes.Calc(source, (("y", col("b", "DOUBLE")),))) == [(0.0,), (2.0,), (None,)]


def test_rows_without_columns_pass_through_filters_and_projections() -> None:
    empty = nodes.Scan(SOURCE.source, ())
    assert len(result(nodes.Limit(nodes.Filter(empty, lit(True, "BOOLEAN NOT NULL")), 3))) == 3
    assert result(nodes.Project(empty, (("one", lit(1)),))) == [(1,)] * 4


def test_values_give_the_rows_of_the_query() -> None:
    fields = Fields((Field("a", DataType("INT")), Field("m", DataType.parse("MAP<STRING, INT>"))))
    mapping = lit({"k": 1}, "MAP<STRING, INT>")
    rows = ((lit(1), mapping), (lit(None, "INT"), lit(None, "MAP<STRING, INT>")))
    assert result(nodes.Values(fields, rows)) == [(1, [("k", 1)]), (None, None)]
    assert result(nodes.Values(Fields(()), ((),))) == [()]
    assert result(nodes.Values(fields, ())) == []


def test_grouping_sets_repeat_rows_with_keys_left_out() -> None:
    plan = nodes.Expand(
        rows_of("a INT, b INT", [(1, 2)]), ("a", "b"), ((0, 1), (1,), (), ()), "id", "n"
    )
    assert result(plan) == [(1, 2, 0, 0), (None, 2, 2, 0), (None, None, 3, 0), (None, None, 3, 1)]


@pytest.mark.parametrize(
    "plan",
    [
        nodes.Hint(SOURCE, "STATE_TTL", ()),
        nodes.Normalize(SOURCE, ("a",)),
        nodes.Exchange(SOURCE, ()),
        nodes.WatermarkAssign(SOURCE, "a", col("a")),
    ],
)
def test_what_is_about_continuous_queries_changes_no_row(plan: nodes.Node) -> None:
    assert result(plan) == ROWS


def test_a_node_that_the_engine_does_not_compute_is_named() -> None:
    with pytest.raises(UnsupportedError, match="no Sink"):
        list(run(nodes.Sink(SOURCE, "db.t", ("a", "b"))))


def test_scans_read_the_columns_they_name() -> None:
    assert result(nodes.Scan(SOURCE.source, ("b", "a"))) == [(b, a) for a, b in ROWS]


def test_what_arrow_refuses_is_an_error_of_the_query() -> None:
    class Refusing:
        def __init__(self, error: Exception) -> None:
            self.error = error

        def batches(self, columns: Any, condition: Any = None) -> Any:
            raise self.error
            yield

        def __getattr__(self, name: str) -> Any:
            return getattr(SOURCE.source, name)

    with pytest.raises(EvaluationError, match="too large"):
        list(run(nodes.Scan(Refusing(pa.ArrowInvalid("too large")))))
    with pytest.raises(UnsupportedError, match="no kernel"):
        list(run(nodes.Scan(Refusing(pa.ArrowNotImplementedError("no kernel")))))


def test_a_function_may_run_queries_of_its_own() -> None:
    @udf("INT")
    def summed(x: pa.Array) -> pa.Array:
        inner = nodes.Filter(rows_of("a INT", [(v,) for v in x.to_pylist()]), ALWAYS)
        return pa.array([row[0] for row in result(inner)], pa.int32())

    source = rows_of("a INT", [(i,) for i in range(40)])
    plan = nodes.Project(source, (("x", summed.call((col("a"),))),))
    assert result(plan) == [(i,) for i in range(40)]


def test_an_error_in_a_batch_ends_the_run() -> None:
    class Failing:
        def batches(self, columns: Any, condition: Any = None) -> Any:
            yield from SOURCE.source.batches(columns)
            raise RuntimeError("lost")

        def __getattr__(self, name: str) -> Any:
            return getattr(SOURCE.source, name)

    with pytest.raises(RuntimeError, match="lost"):
        list(run(nodes.Filter(nodes.Scan(Failing()), lit(True, "BOOLEAN NOT NULL"))))  # type: ignore[arg-type]
