"""Aggregates computed: values, NULLs, extremes and empty groups."""

import datetime
import math
import random
import statistics
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pkray.errors import EvaluationError, UnsupportedError
from pkray.relational.functions.aggregates.kernels import accumulator, grouped_aggregate
from pkray.relational.plan.expressions import AggregateCall, Literal, SortKey
from pkray.schema.types import DataType

GROUPS = [0, 0, 0, 1, 1, 2]
NAN, INF = math.nan, math.inf


def call(function: str, result: str, arguments: int = 1, **more: Any) -> AggregateCall:
    parameters = tuple(
        Literal(DataType("STRING" if isinstance(value, str) else "DOUBLE"), value)
        for value in more.pop("parameters", ())
    )
    names = ("x", "y")[:arguments]
    return AggregateCall(function, names, DataType.parse(result), parameters=parameters, **more)


def aggregate(
    asked: AggregateCall, kind: str, values: list[Any], groups: list[int] = GROUPS, count: int = 4
) -> list[Any]:
    array = pa.array(values, DataType.parse(kind).arrow)
    result = grouped_aggregate(asked, np.array(groups), count, [array])
    assert result.type == asked.type.arrow
    return list(result.to_pylist())


@pytest.mark.parametrize(
    ("function", "kind", "result", "values", "expected"),
    [
        ("count", "INT", "BIGINT NOT NULL", [1, None, 3, None, None, 6], [2, 0, 1, 0]),
        (
            "count_if",
            "BOOLEAN",
            "BIGINT NOT NULL",
            [True, None, False, True, True, None],
            [1, 2, 0, 0],
        ),
        ("sum", "BIGINT", "BIGINT", [1, None, 3, None, None, -6], [4, None, -6, None]),
        ("sum", "BIGINT", "BIGINT", [2**62, 2**62, -(2**62), 1, 2, -(2**63)],
         [2**62, 3, -(2**63), None]),
        ("sum_wrapping", "INT", "INT", [2**31 - 1, 1, None, 4, 5, 6], [-(2**31), 9, 6, None]),
        ("sum_wrapping", "BIGINT", "BIGINT", [2**63 - 1, 1, 0, 4, 5, 6],
         [-(2**63), 9, 6, None]),
        ("avg_truncating", "INT", "INT", [-4, -3, None, 2**31 - 1, 2**31 - 1, None],
         [-3, 2**31 - 1, None, None]),
        ("sum", "DOUBLE", "DOUBLE", [0.1, 0.2, 0.3, INF, 1.0, NAN],
         [0.1 + 0.2 + 0.3, INF, NAN, None]),
        ("avg", "DOUBLE", "DOUBLE", [1.0, 2.0, None, 1.0, -1.0, None], [1.5, 0.0, None, None]),
        ("min", "DOUBLE", "DOUBLE", [NAN, 2.0, None, NAN, NAN, None], [2.0, NAN, None, None]),
        ("max", "DOUBLE", "DOUBLE", [NAN, 2.0, None, -INF, 1.0, None], [NAN, 1.0, None, None]),
        ("min", "STRING", "STRING", ["b", None, "a", "é", "z", None], ["a", "z", None, None]),
        ("max", "STRING", "STRING", ["b", None, "a", "é", "z", None], ["b", "é", None, None]),
        ("min", "BOOLEAN", "BOOLEAN", [True, None, False, True, True, None],
         [False, True, None, None]),
        ("bool_and", "BOOLEAN", "BOOLEAN", [True, None, False, True, True, None],
         [False, True, None, None]),
        ("bool_or", "BOOLEAN", "BOOLEAN", [True, None, False, False, False, None],
         [True, False, None, None]),
        ("bit_and", "INT", "INT", [7, 3, None, -1, 6, None], [3, 6, None, None]),
        ("bit_xor", "INT", "INT", [7, 3, None, -1, 6, None], [4, -7, None, None]),
        ("first", "INT", "INT", [None, 2, 3, 4, 5, 6], [None, 4, 6, None]),
        ("last", "INT", "INT", [1, 2, None, 4, 5, 6], [None, 5, 6, None]),
        ("first", "ARRAY<INT>", "ARRAY<INT>", [[1], [2], None, [], [3], None],
         [[1], [], None, None]),
        ("var_pop", "DOUBLE", "DOUBLE", [1.0, 3.0, None, 5.0, None, None],
         [1.0, 0.0, None, None]),
        ("var_samp", "DOUBLE", "DOUBLE", [1.0, 3.0, None, 5.0, None, None],
         [2.0, None, None, None]),
        ("stddev_pop", "DOUBLE", "DOUBLE", [1e9 + 1, 1e9 + 3, None, 5.0, None, NAN],
         [1.0, 0.0, NAN, None]),
        ("stddev_samp", "DOUBLE", "DOUBLE", [1.0, 3.0, None, 5.0, 5.0, None],
         [math.sqrt(2), 0.0, None, None]),
        ("skewness", "DOUBLE", "DOUBLE", [0.0, 0.0, 3.0, 5.0, 5.0, None],
         [0.7071067811865475, None, None, None]),
        ("kurtosis", "DOUBLE", "DOUBLE", [0.0, 0.0, 3.0, 1.0, 2.0, 1.0], [-1.5, -2.0, None, None]),
        ("collect_list", "INT", "ARRAY<INT NOT NULL> NOT NULL", [1, None, 1, None, None, 6],
         [[1, 1], [], [6], []]),
        ("collect_set", "INT", "ARRAY<INT NOT NULL> NOT NULL", [1, None, 1, 5, 4, 6],
         [[1], [5, 4], [6], []]),
        ("array_agg", "INT", "ARRAY<INT>", [1, None, 1, 5, 4, None],
         [[1, None, 1], [5, 4], [None], None]),
        ("approx_count_distinct", "INT", "BIGINT NOT NULL", [1, None, 1, 5, 4, None],
         [1, 2, 0, 0]),
        ("mode", "STRING", "STRING", ["b", "a", "b", "d", "c", None], ["b", "c", None, None]),
        ("min", "DECIMAL(5, 2)", "DECIMAL(5, 2)",
         [Decimal("-1.50"), None, Decimal("2.25"), None, None, None],
         [Decimal("-1.50"), None, None, None]),
        ("max", "DECIMAL(38, 2)", "DECIMAL(38, 2)",
         [Decimal("-1.50"), None, Decimal("2.25"), Decimal(10**35), Decimal(-(10**35)), None],
         [Decimal("2.25"), Decimal(10**35), None, None]),
        ("max", "DATE", "DATE",
         [datetime.date(1969, 12, 31), datetime.date(1, 1, 1), None, None, None, None],
         [datetime.date(1969, 12, 31), None, None, None]),
        ("min", "TIMESTAMP(3)", "TIMESTAMP(3)",
         [datetime.datetime(1969, 12, 31, 23, 59, 59, 999000), datetime.datetime(2020, 2, 29),
          None, None, None, None],
         [datetime.datetime(1969, 12, 31, 23, 59, 59, 999000), None, None, None]),
    ],
)  # fmt: skip
def test_an_aggregate_gives_a_value_a_group(
    function: str, kind: str, result: str, values: list[Any], expected: list[Any]
) -> None:
    got = aggregate(call(function, result), kind, values)
    assert got == pytest.approx(expected, nan_ok=True) if kind == "DOUBLE" else got == expected


@pytest.mark.parametrize(
    ("kind", "result", "values", "expected"),
    [
        ("DECIMAL(10, 2)", "DECIMAL(38, 2)", ["1.10", "-0.05", None, "9.99", "0.01", None],
         ["1.05", "10.00", None]),
        ("DECIMAL(38, 0)", "DECIMAL(38, 0)", ["9" * 38, "-" + "9" * 37, None, "-1", "-1", "0"],
         [str(int("9" * 38) - int("9" * 37)), "-2", "0"]),
        ("DECIMAL(38, 0)", "DECIMAL(38, 0)", ["9" * 38, "9" * 38, "-" + "9" * 38, "-1", "-1", "0"],
         ["9" * 38, "-2", "0"]),
    ],
)  # fmt: skip
def test_decimals_are_summed_exactly(
    kind: str, result: str, values: list[str | None], expected: list[str | None]
) -> None:
    numbers = [None if value is None else Decimal(value) for value in values]
    sums = aggregate(call("sum", result), kind, numbers, count=3)
    assert sums == [None if value is None else Decimal(value) for value in expected]


@pytest.mark.parametrize(
    ("kind", "result", "values", "message"),
    [
        ("BIGINT", "BIGINT", [2**63 - 1, 1], "9223372036854775808"),
        ("BIGINT", "BIGINT", [-(2**63), -1], "-9223372036854775809"),
        ("DECIMAL(38, 1)", "DECIMAL(38, 1)", [Decimal(10**36 * 9), Decimal(10**36 * 9)],
         "18000000000000000000000000000000000000.0"),
        ("DECIMAL(3, 2)", "DECIMAL(3, 2)", [Decimal("-9.99"), Decimal("-0.01")], "-10.00"),
    ],
)  # fmt: skip
def test_a_sum_that_does_not_fit_its_type_fails_and_says_the_sum(
    kind: str, result: str, values: list[Any], message: str
) -> None:
    with pytest.raises(EvaluationError, match=message):
        aggregate(call("sum", result), kind, values, [0, 0], 1)


def test_a_sum_that_does_not_fit_is_null_when_tried() -> None:
    values, groups = [2**63 - 1, 1, 3], [0, 0, 1]
    assert aggregate(call("try_sum", "BIGINT"), "BIGINT", values, groups, 3) == [None, 3, None]
    most = [Decimal("9" * 38), Decimal(1), Decimal(4)]
    tried = call("try_avg", "DECIMAL(38, 4)")
    assert aggregate(tried, "DECIMAL(38, 0)", most, groups, 3) == [None, Decimal("4.0000"), None]


@pytest.mark.parametrize(
    ("result", "values", "expected"),
    [
        ("DECIMAL(14, 6)", ["0.01", "0.01", "0.02"], "0.013333"),
        ("DECIMAL(14, 6)", ["-0.01", "-0.02", "-0.02"], "-0.016667"),
        ("DECIMAL(38, 6)", ["99999999.99"] * 3, "99999999.990000"),
        ("DECIMAL(4, 0)", ["0.49", "0.50", "0.51"], "1"),
    ],
)
def test_means_of_decimals_are_rounded_half_up(
    result: str, values: list[str], expected: str
) -> None:
    numbers = [Decimal(value) for value in values]
    (mean,) = aggregate(call("avg", result), "DECIMAL(10, 2)", numbers, [0, 0, 0], 1)
    assert mean == Decimal(expected)


def test_only_rows_where_the_filter_is_true_count() -> None:
    kept = pa.array([True, False, None, True, True, True])
    result = grouped_aggregate(
        call("sum", "BIGINT"), np.array(GROUPS), 3, [pa.array([1, 2, 3, 4, 5, 6])], kept
    )
    assert result.to_pylist() == [1, 9, 6]


def test_count_without_arguments_counts_rows() -> None:
    rows = grouped_aggregate(call("count", "BIGINT NOT NULL", 0), np.array(GROUPS), 4, [])
    assert rows.to_pylist() == [3, 2, 1, 0]


def test_count_of_several_arguments_counts_rows_without_nulls_and_distinct_pairs_once() -> None:
    x, y = pa.array([1, 1, 1, 2, None, 3]), pa.array(["a", "a", "b", None, "a", "b"])
    for distinct, expected in ((False, [3, 0, 1]), (True, [2, 0, 1])):
        asked = call("count", "BIGINT NOT NULL", 2, distinct=distinct)
        assert grouped_aggregate(asked, np.array(GROUPS), 3, [x, y]).to_pylist() == expected


@pytest.mark.parametrize(
    ("function", "kind", "result", "values", "expected"),
    [
        ("sum", "BIGINT", "BIGINT", [1, 1, 2, 5, 5, None], [3, 5, None, None]),
        ("count", "DOUBLE", "BIGINT NOT NULL", [NAN, -NAN, 1.0, 5.0, None, None], [2, 1, 0, 0]),
        ("avg", "DOUBLE", "DOUBLE", [1.0, 1.0, 4.0, 5.0, None, None], [2.5, 5.0, None, None]),
        ("max", "INT", "INT", [1, 1, 2, 5, 5, None], [2, 5, None, None]),
        ("collect_list", "STRING", "ARRAY<STRING NOT NULL> NOT NULL",
         ["b", "b", "a", "c", None, None], [["b", "a"], ["c"], [], []]),
        ("count", "ARRAY<INT>", "BIGINT NOT NULL", [[1], [1], [1, None], [], None, None],
         [2, 1, 0, 0]),
    ],
)  # fmt: skip
def test_distinct_takes_each_value_of_a_group_once(
    function: str, kind: str, result: str, values: list[Any], expected: list[Any]
) -> None:
    assert aggregate(call(function, result, distinct=True), kind, values) == expected


def test_text_is_joined_in_the_order_within_the_group() -> None:
    order = (SortKey("o", descending=True, nulls_first=False),)
    asked = call("listagg", "STRING", parameters=["-"], order_by=order)
    result = grouped_aggregate(
        asked,
        np.array(GROUPS),
        4,
        [pa.array(["a", "b", None, "c", "d", None])],
        order=[pa.array([1, 2, 3, None, 4, 5])],
    )
    assert result.to_pylist() == ["b-a", "d-c", None, None]


def test_first_follows_the_order_within_the_group_and_ignores_nulls_when_asked() -> None:
    values, order = pa.array([1, 2, None]), pa.array([3, 2, 1])
    for ignore, expected in ((False, None), (True, 2)):
        asked = call("first", "INT", order_by=(SortKey("o"),), ignore_nulls=ignore)
        result = grouped_aggregate(asked, np.zeros(3, int), 1, [values], order=[order])
        assert result.to_pylist() == [expected]


def test_max_by_ignores_rows_where_what_is_compared_is_null() -> None:
    x, y = pa.array(["a", None, "c", "d", "e", "f"]), pa.array([1, 3, 2, NAN, 5.0, None])
    for function, expected in (("max_by", [None, "d", None]), ("min_by", ["a", "e", None])):
        result = grouped_aggregate(call(function, "STRING", 2), np.array(GROUPS), 3, [x, y])
        assert result.to_pylist() == expected


def test_rows_are_ordered_by_their_fields_null_least() -> None:
    kind = "ROW<`a` INT, `b` STRING>"
    pairs = [(1, "x"), (None, "z"), (1, "y"), (2, None), (2, ""), None]
    rows = [None if pair is None else {"a": pair[0], "b": pair[1]} for pair in pairs]
    assert aggregate(call("max", kind), kind, rows) == [rows[2], rows[4], None, None]
    assert aggregate(call("min", kind), kind, rows) == [rows[1], rows[3], None, None]


def test_correlation_and_covariance() -> None:
    x, y = pa.array([1.0, 2.0, 3.0, 1.0, 1.0, 5.0]), pa.array([2.0, 4.0, 7.0, 1.0, 2.0, 5.0])
    for function, expected in (
        ("covar_pop", [5 / 3, 0.0, 0.0]),
        ("covar_samp", [2.5, 0.0, None]),
        ("corr", [statistics.correlation([1, 2, 3], [2, 4, 7]), None, None]),
    ):
        result = grouped_aggregate(call(function, "DOUBLE", 2), np.array(GROUPS), 3, [x, y])
        assert result.to_pylist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("function", "share", "descending", "expected"),
    [
        ("percentile_cont", 0.5, False, [2.5, 7.0, None]),
        ("percentile_cont", 0.25, False, [1.75, 7.0, None]),
        ("percentile_cont", 0.25, True, [3.25, 7.0, None]),
        ("percentile_disc", 0.5, False, [2.0, 7.0, None]),
        ("percentile_disc", 0.0, True, [4.0, 7.0, None]),
        ("percentile_disc", 1.0, False, [4.0, 7.0, None]),
    ],
)
def test_percentiles(
    function: str, share: float, descending: bool, expected: list[float | None]
) -> None:
    order = (SortKey("x", descending=True),) if descending else ()
    asked = call(function, "DOUBLE", parameters=[share], order_by=order)
    values = [4.0, 1.0, 3.0, 2.0, None, 7.0]
    assert aggregate(asked, "DOUBLE", values, [0, 0, 0, 0, 1, 1], 3) == expected


ALL = [
    ("count", "BIGINT NOT NULL", "BIGINT"),
    ("sum", "BIGINT", "BIGINT"),
    ("sum", "DECIMAL(38, 3)", "DECIMAL(30, 3)"),
    ("avg", "DECIMAL(38, 7)", "DECIMAL(30, 3)"),
    ("avg", "DOUBLE", "DOUBLE"),
    ("min", "BIGINT", "BIGINT"),
    ("max", "STRING", "STRING"),
    ("min", "DECIMAL(30, 3)", "DECIMAL(30, 3)"),
    ("first", "BIGINT", "BIGINT"),
    ("last", "STRING", "STRING"),
    ("var_samp", "DOUBLE", "DOUBLE"),
    ("kurtosis", "DOUBLE", "DOUBLE"),
    ("collect_list", "ARRAY<BIGINT NOT NULL> NOT NULL", "BIGINT"),
    ("collect_set", "ARRAY<STRING NOT NULL> NOT NULL", "STRING"),
    ("approx_count_distinct", "BIGINT NOT NULL", "STRING"),
    ("mode", "BIGINT", "BIGINT"),
]


def random_values(kind: str, count: int) -> list[Any]:
    chance = random.Random(7)
    make = {
        "BIGINT": lambda: chance.choice([0, 1, -1, 2**40, chance.randint(-9, 9)]),
        "DOUBLE": lambda: chance.gauss(5, 2),
        "STRING": lambda: chance.choice("abcdef") * chance.randint(0, 2),
        "DECIMAL(30, 3)": lambda: Decimal(chance.randint(-(10**29), 10**29)) / 1000,
    }[kind]
    return [None if chance.random() < 0.2 else make() for _ in range(count)]


@pytest.mark.parametrize(("function", "result", "kind"), ALL)
def test_batches_give_what_all_rows_at_once_give(function: str, result: str, kind: str) -> None:
    rows, count = 900, 40
    values = pa.array(random_values(kind, rows), DataType.parse(kind).arrow)
    groups = np.minimum(np.random.default_rng(1).integers(0, count, rows), np.arange(rows))
    asked = call(function, result)
    state = accumulator(asked, [values.type])
    for start in range(0, rows, 100):
        part = groups[start : start + 100]
        seen = int(groups[: start + 100].max()) + 1
        state.update(part, seen, [values.slice(start, 100)])
    once = grouped_aggregate(asked, groups, count, [values])
    parts = state.finish(count)
    if kind == "DOUBLE":
        assert parts.to_pylist() == pytest.approx(once.to_pylist())
    else:
        assert parts.equals(once)


@pytest.mark.parametrize(("function", "result", "kind"), ALL)
def test_groups_without_rows_have_no_value(function: str, result: str, kind: str) -> None:
    (value,) = aggregate(call(function, result), kind, [], [], 1)
    assert value == {"BIGINT NOT NULL": 0}.get(result, [] if "ARRAY" in result else None)


def test_variances_of_batches_are_those_of_all_values() -> None:
    values = [1e9 + each for each in range(100)]
    state = accumulator(call("var_pop", "DOUBLE"), [pa.float64()])
    for start in range(0, 100, 7):
        part = values[start : start + 7]
        state.update(np.zeros(len(part), int), 1, [pa.array(part)])
    assert state.finish(1).to_pylist() == pytest.approx([statistics.pvariance(values)], rel=1e-12)


@pytest.mark.parametrize("function", ["collect_list", "collect_set"])
def test_more_texts_than_a_column_takes_are_refused(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pkray.relational.functions.aggregates.accumulator.MOST_BYTES", 1000)
    lists = call(function, "ARRAY<STRING NOT NULL> NOT NULL")
    values = pa.array([f"{number:0100}" for number in range(20)])
    with pytest.raises(UnsupportedError, match="at most 1000 fit in a column"):
        grouped_aggregate(lists, np.zeros(20, np.int64), 1, [values])
