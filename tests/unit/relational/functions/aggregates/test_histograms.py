"""Histograms whose bins lie where the values do; the expected bins are Spark 4.2's answers."""

from datetime import date
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa
import pytest

from pkray.errors import QueryCancelledError, QueryError
from pkray.relational import changelog, from_arrow, query
from pkray.relational.cancellation import Cancellation, under
from pkray.relational.functions.aggregates.histograms import Bins
from tests.unit.relational.continuous.histories import Continuous

NAN, LONG = float("nan"), 2**63 - 1


def bins_of(text: str, **sources: Any) -> list[tuple[Any, float]] | None:
    (found,) = query(text, **sources).to_arrow()["v"].to_pylist()
    return None if found is None else [(each["x"], each["y"]) for each in found]


def histogram(values: list[Any], kind: pa.DataType, bins: int) -> list[tuple[Any, float]] | None:
    rows = from_arrow(pa.table({"x": pa.array(values, kind)}), name="t")
    return bins_of(f"SELECT histogram_numeric(x, {bins}) AS v FROM t", t=rows)


@pytest.mark.parametrize(
    ("kind", "values", "bins", "expected"),
    [
        (pa.int32(), [0, 1, 2, 10], 5, [(0, 1), (1, 1), (2, 1), (10, 1)]),
        (pa.int32(), [0, 1, 2, 10], 3, [(0, 1), (1, 2), (10, 1)]),
        (pa.int32(), [0, 1, 2, 10, 3, 3, -5, 7], 3, [(-5, 1), (1, 5), (8, 2)]),
        (pa.int64(), list(range(30)), 5, [(1, 5), (7, 5), (13, 8), (20, 7), (27, 5)]),
        (pa.int8(), [127, 126, -128], 2, [(-128, 1), (126, 2)]),
        (pa.int64(), [LONG, LONG - 1, -1], 2, [(-1, 1), (LONG, 2)]),
        (
            pa.decimal128(5, 2),
            [Decimal("0.01"), Decimal("1.33"), Decimal("2.5"), Decimal("11")],
            2,
            [(Decimal("1.28"), 3), (Decimal("11.00"), 1)],
        ),
        (
            pa.float32(),
            [0.01, 1.33, 2.5, 10.999],
            2,
            [(1.2799999713897705, 3), (10.99899959564209, 1)],
        ),
        (
            pa.date32(),
            [date(2020, 1, 1), date(2020, 1, 3), date(2021, 1, 1)],
            2,
            [(date(2020, 1, 2), 2), (date(2021, 1, 1), 1)],
        ),
        (pa.float64(), [0.0, -0.0, None, 1.5], 2, [(0.0, 2), (1.5, 1)]),
        (pa.int32(), [None, None], 2, None),
        (pa.int32(), [], 2, None),
    ],
)
def test_bins_are_sparks(
    kind: pa.DataType, values: list[Any], bins: int, expected: list[tuple[Any, float]] | None
) -> None:
    assert histogram(values, kind, bins) == expected


def test_infinity_takes_in_what_is_near_and_each_nan_is_a_bin() -> None:
    found = histogram([NAN, 1.0, 2.0, 3.0, float("inf")], pa.float64(), 2)
    assert repr(found) == "[(inf, 4.0), (nan, 1.0)]"
    found = histogram([NAN, NAN, 0.0, -0.0], pa.float64(), 5)
    assert repr(found) == "[(nan, 1.0), (0.0, 2.0), (nan, 1.0)]"


def test_groups_with_few_and_with_many_values_stand_side_by_side() -> None:
    known = {"a": [3, 1, 3], "b": [0, 1, 2, 10], "c": [None], "d": [7]}
    rows = [(key, value) for key, values in known.items() for value in values]
    table = pa.table({"k": [key for key, _ in rows], "x": [value for _, value in rows]})
    text = "SELECT k, histogram_numeric(x, 3) AS v FROM t GROUP BY k ORDER BY k"
    found = query(text, t=from_arrow(table, name="t")).to_arrow()["v"].to_pylist()
    assert [each and [(one["x"], one["y"]) for one in each] for each in found] == [
        [(1, 1), (3, 2)],
        [(0, 1), (1, 2), (10, 1)],
        None,
        [(7, 1)],
    ]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("histogram_numeric(DISTINCT x, 2)", [(1, 1), (6, 2)]),
        ("histogram_numeric(x, 2) FILTER (WHERE x > 1)", [(5, 1), (7, 1)]),
        ("histogram_numeric(CAST(x AS STRING), 2)", [(1.0, 2), (6.0, 2)]),
    ],
)
def test_distinct_values_filtered_ones_and_texts(call: str, expected: list[Any]) -> None:
    rows = from_arrow(pa.table({"x": [1, 1, 5, 7]}), name="t")
    assert bins_of(f"SELECT {call} AS v FROM t", t=rows) == expected


def test_each_frame_has_its_bins() -> None:
    rows = from_arrow(pa.table({"x": [1, 1, 5, 7]}), name="t")
    text = "SELECT histogram_numeric(x, 2) OVER (ORDER BY x) AS v FROM t"
    found = query(text, t=rows).to_arrow()["v"].to_pylist()
    assert [[(one["x"], one["y"]) for one in each] for each in found] == [
        [(1, 2)],
        [(1, 2)],
        [(1, 2), (5, 1)],
        [(1, 2), (6, 2)],
    ]


@pytest.mark.parametrize("mode", ["insert", "all"])
def test_rows_count_in_the_order_in_which_they_come(mode: Literal["insert", "all"]) -> None:
    values = [0, 1, 2, 10, 3, 3, -5, 7]
    source = changelog({"id": "INT", "x": "INT"}, mode=mode, name="t")
    run = Continuous(query("SELECT histogram_numeric(x, 3) AS v FROM t", t=source), {"t": source})
    for numbers in (values[:3], values[3:]):
        run.push("t", [{"id": number, "x": number} for number in numbers])
    ((found,),) = run.content
    assert [tuple(value for _, value in one) for one in found] == [(-5, 1), (1, 5), (8, 2)]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        ("histogram_numeric(x)", "takes 2 arguments"),
        ("histogram_numeric(x, 1)", "at least 2; 1 given"),
        ("histogram_numeric(x, NULL)", "at least 2; None given"),
        ("histogram_numeric(x, x)", "must be a constant"),
        ("histogram_numeric(x > 1, 2)", "a number, a date or a timestamp, not BOOLEAN"),
        ("histogram_numeric(array(x), 2)", "a number, a date or a timestamp, not ARRAY"),
    ],
)
def test_wrong_arguments_are_refused(call: str, match: str) -> None:
    rows = from_arrow(pa.table({"x": [1]}), name="t")
    with pytest.raises(QueryError, match=match):
        query(f"SELECT {call} AS v FROM t", t=rows)


def test_many_values_can_be_cancelled() -> None:
    token = Cancellation()
    token.cancel()
    with under(token), pytest.raises(QueryCancelledError):
        Bins(2).add([1.0])
