"""Aggregates and window functions: names, arguments and types in both dialects."""

from typing import Any

import pyarrow as pa
import pytest

from pkray.errors import QueryError, UnsupportedError
from pkray.relational import from_arrow, query
from pkray.relational.dialect import Dialect
from pkray.relational.functions.aggregates import catalogue
from pkray.relational.plan.expressions import Cast, ColumnRef, Expression, Literal
from pkray.schema.types import DataType

SPARK, FLINK = Dialect.SPARK, Dialect.FLINK


def column(kind: str) -> Expression:
    return ColumnRef(DataType.parse(kind), "x")


def constant(value: object, kind: str = "INT NOT NULL") -> Literal:
    return Literal(DataType.parse(kind), value)


@pytest.mark.parametrize(
    ("name", "argument", "dialect", "function", "result"),
    [
        ("count", "INT", SPARK, "count", "BIGINT NOT NULL"),
        ("COUNT", "INT", FLINK, "count", "BIGINT NOT NULL"),
        ("sum", "INT", SPARK, "sum", "BIGINT"),
        ("sum", "INT", FLINK, "sum_wrapping", "INT"),
        ("sum", "TINYINT NOT NULL", FLINK, "sum_wrapping", "TINYINT"),
        ("sum", "FLOAT", SPARK, "sum", "DOUBLE"),
        ("sum", "FLOAT", FLINK, "sum", "FLOAT"),
        ("sum", "STRING", SPARK, "sum", "DOUBLE"),
        ("sum", "DECIMAL(10, 2)", SPARK, "sum", "DECIMAL(20, 2)"),
        ("sum", "DECIMAL(35, 2)", SPARK, "sum", "DECIMAL(38, 2)"),
        ("sum", "DECIMAL(10, 2)", FLINK, "sum", "DECIMAL(38, 2)"),
        ("avg", "INT", SPARK, "avg", "DOUBLE"),
        ("avg", "INT", FLINK, "avg_truncating", "INT"),
        ("avg", "FLOAT", FLINK, "avg", "FLOAT"),
        ("avg", "DECIMAL(10, 2)", SPARK, "avg", "DECIMAL(14, 6)"),
        ("avg", "DECIMAL(38, 10)", SPARK, "avg", "DECIMAL(38, 14)"),
        ("avg", "DECIMAL(10, 2)", FLINK, "avg", "DECIMAL(38, 6)"),
        ("avg", "DECIMAL(20, 9)", FLINK, "avg", "DECIMAL(38, 9)"),
        ("min", "VARCHAR(3) NOT NULL", SPARK, "min", "VARCHAR(3)"),
        ("first_value", "INT NOT NULL", FLINK, "first", "INT"),
        ("max", "ROW<`a` INT>", SPARK, "max", "ROW<`a` INT>"),
        ("any_value", "INT", SPARK, "first", "INT"),
        ("stddev", "INT", SPARK, "stddev_samp", "DOUBLE"),
        ("variance", "DECIMAL(3, 1)", SPARK, "var_samp", "DOUBLE"),
        ("every", "BOOLEAN", SPARK, "bool_and", "BOOLEAN"),
        ("bit_xor", "SMALLINT", SPARK, "bit_xor", "SMALLINT"),
        ("string_agg", "INT", SPARK, "listagg", "STRING"),
        ("collect_list", "INT", SPARK, "collect_list", "ARRAY<INT NOT NULL> NOT NULL"),
        ("array_agg", "INT", SPARK, "collect_list", "ARRAY<INT NOT NULL> NOT NULL"),
        ("array_agg", "INT", FLINK, "array_agg", "ARRAY<INT>"),
        ("median", "INT", SPARK, "percentile_cont", "DOUBLE"),
        ("approx_count_distinct", "INT", SPARK, "approx_count_distinct", "BIGINT NOT NULL"),
        ("mode", "DATE", SPARK, "mode", "DATE"),
        ("try_sum", "INT", SPARK, "try_sum", "BIGINT"),
        ("try_avg", "DECIMAL(10, 2)", SPARK, "try_avg", "DECIMAL(14, 6)"),
    ],
)
def test_an_aggregate_has_the_dialects_type(
    name: str, argument: str, dialect: Dialect, function: str, result: str
) -> None:
    resolved = catalogue.resolve_aggregate(name, (column(argument),), dialect)
    assert (resolved.function, str(resolved.type)) == (function, result)


def test_integers_are_summed_as_bigint() -> None:
    (argument,) = catalogue.resolve_aggregate("sum", (column("INT"),), SPARK).arguments
    assert argument == Cast(DataType("BIGINT"), column("INT"))


def test_count_of_all_rows_takes_no_argument() -> None:
    assert catalogue.resolve_aggregate("count", (), SPARK).arguments == ()
    with pytest.raises(QueryError, match="name columns"):
        catalogue.resolve_aggregate("count", (), SPARK, distinct=True)


@pytest.mark.parametrize(("dialect", "separator"), [(SPARK, ""), (FLINK, ",")])
def test_the_default_separator_of_listagg_is_the_dialects(dialect: Dialect, separator: str) -> None:
    assert catalogue.resolve_aggregate("listagg", (column("STRING"),), dialect).parameters == (
        constant(separator, "STRING NOT NULL"),
    )


def test_percentile_cont_takes_its_value_from_within_group() -> None:
    half = constant(0.5, "DOUBLE NOT NULL")
    resolved = catalogue.resolve_aggregate(
        "percentile_cont", (half,), SPARK, within_group=(column("DOUBLE"),)
    )
    assert resolved == catalogue.resolve_aggregate("percentile", (column("DOUBLE"), half), SPARK)


def test_percentile_approx_keeps_the_type_of_its_values() -> None:
    share = constant(1)
    resolved = catalogue.resolve_aggregate("approx_percentile", (column("DATE"), share), SPARK)
    assert (resolved.function, str(resolved.type)) == ("percentile_disc", "DATE")


@pytest.mark.parametrize(("dialect", "ignored"), [(SPARK, []), (FLINK, [True])])
def test_first_value_leaves_nulls_out_in_flink(dialect: Dialect, ignored: list[bool]) -> None:
    resolved = catalogue.resolve_aggregate("first_value", (column("INT"),), dialect)
    assert [each.value for each in resolved.parameters] == ignored


def test_the_second_argument_of_first_says_whether_nulls_are_ignored() -> None:
    resolved = catalogue.resolve_aggregate(
        "first", (column("INT"), constant(True, "BOOLEAN NOT NULL")), SPARK
    )
    assert [each.value for each in resolved.parameters] == [True]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("summ", ("INT",), "did you mean sum"),
        ("sum", ("BOOLEAN",), "argument 1 of sum is BOOLEAN"),
        ("sum", (), "sum takes 1 argument, not 0"),
        ("max", ("MAP<INT, INT>",), "cannot order"),
        ("corr", ("INT",), "corr takes 2 arguments"),
        ("percentile", ("INT", "DOUBLE"), "must be a constant"),
        ("percentile_cont", ("DOUBLE",), "WITHIN GROUP"),
    ],
)
def test_wrong_calls_are_refused_with_a_remedy(
    name: str, arguments: tuple[str, ...], message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        catalogue.resolve_aggregate(name, tuple(map(column, arguments)), SPARK)


def test_a_multiset_is_refused_with_what_to_write_instead() -> None:
    assert not catalogue.is_aggregate("collect", SPARK)
    with pytest.raises(UnsupportedError, match="write ARRAY_AGG"):
        catalogue.resolve_aggregate("COLLECT", (column("INT"),), FLINK)


def test_every_aggregate_says_what_it_does() -> None:
    for dialect in Dialect:
        for each in catalogue.written_aggregates(dialect):
            assert each.usage.startswith(each.name)
            assert each.about.endswith(".")


@pytest.mark.parametrize(
    ("name", "arguments", "dialect", "result"),
    [
        ("row_number", (), SPARK, "INT NOT NULL"),
        ("row_number", (), FLINK, "BIGINT NOT NULL"),
        ("percent_rank", (), SPARK, "DOUBLE NOT NULL"),
        ("ntile", (constant(3),), SPARK, "INT NOT NULL"),
        ("lag", (column("INT NOT NULL"),), SPARK, "INT"),
        ("lead", (column("BIGINT NOT NULL"), constant(2), constant(0)), SPARK, "BIGINT NOT NULL"),
        ("first_value", (column("INT NOT NULL"),), SPARK, "INT"),
        ("nth_value", (column("STRING"), constant(2)), SPARK, "STRING"),
    ],
)
def test_a_window_function_has_the_dialects_type(
    name: str, arguments: tuple[Expression, ...], dialect: Dialect, result: str
) -> None:
    assert catalogue.is_window(name)
    assert str(catalogue.resolve_window(name, arguments, dialect).type) == result


def test_the_default_of_lag_is_a_second_argument_of_the_values_type() -> None:
    resolved = catalogue.resolve_window("lag", (column("BIGINT"), constant(2), constant(0)), SPARK)
    assert resolved.parameters == (constant(2),)
    assert resolved.arguments[1] == Literal(DataType("BIGINT", False), 0)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("row_numbr", (), "did you mean row_number"),
        ("rank", (column("INT"),), "takes 0 arguments"),
        ("ntile", (constant(0),), "at least 1; 0 given"),
        ("lag", (column("INT"), column("INT")), "the offset of lag must be a constant"),
    ],
)
def test_wrong_window_functions_are_refused(
    name: str, arguments: tuple[Expression, ...], message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        catalogue.resolve_window(name, arguments, SPARK)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("percentile(x, array(0.25, 0.5, 0.75))", [1.75, 2.5, 4.75]),
        ("percentile_approx(x, array(0.25, 0.5, 0.75), 100)", [1, 2, 3]),
        ("percentile_cont(array(0.5, 0.25)) WITHIN GROUP (ORDER BY x DESC)", [2.5, 4.75]),
        ("percentile(x, array())", None),
        ("percentile(x, array(0.5)) FILTER (WHERE x > 99)", None),
    ],
)
def test_some_percentiles_are_an_array(call: str, expected: Any) -> None:
    rows = from_arrow(pa.table({"x": [10, 1, 3, 2, None]}))
    assert query(f"SELECT {call} AS v FROM r", r=rows).to_arrow()["v"].to_pylist() == [expected]


def test_an_array_of_percentages_is_constant_and_within_0_to_1() -> None:
    rows = from_arrow(pa.table({"x": [1.0]}))
    for array, message in (("array(0.5, 2)", "from 0 to 1"), ("array(x)", "a constant array"),
                           ("array(0.5, NULL)", "from 0 to 1")):  # fmt: skip
        with pytest.raises(QueryError, match=message):
            query(f"SELECT percentile(x, {array}) AS v FROM r", r=rows).to_arrow()


def test_the_accuracy_of_a_percentile_is_checked() -> None:
    with pytest.raises(QueryError, match="accuracy of percentile_approx must be a whole number"):
        query("SELECT percentile_approx(x, 0.5, 0) FROM VALUES (1) t(x)")
