"""Aggregates of linear regression: values as Spark gives them, NULLs, FILTER, OVER and names."""

from typing import Any

import pyarrow as pa
import pytest

from pkray.errors import QueryError
from pkray.relational import from_arrow, query

NAMES = ("count", "avgx", "avgy", "sxx", "sxy", "syy", "slope", "intercept", "r2")
PAIRS = [(1, 2), (2, 3), (None, 4), (5, None), (7, 9)]


def regressions(pairs: list[tuple[Any, Any]], more: str = "") -> dict[str, Any]:
    rows = from_arrow(
        pa.table(
            {"y": pa.array([y for y, _ in pairs], pa.float64()),
             "x": pa.array([x for _, x in pairs], pa.float64())}
        )
    )  # fmt: skip
    columns = ", ".join(f"regr_{name}(y, x) {more} AS {name}" for name in NAMES)
    return dict(query(f"SELECT {columns} FROM r", r=rows).to_arrow().to_pylist()[0])


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (PAIRS, (3, 4.666666666666667, 3.3333333333333335, 28.66666666666667, 24.333333333333336,
                 20.666666666666668, 0.8488372093023255, -0.6279069767441858, 0.9994373593398348)),
        ([(1, 2)], (1, 2.0, 1.0, 0.0, 0.0, 0.0, None, None, None)),
        ([(1, 2), (1, 3)], (2, 2.5, 1.0, 0.5, 0.0, 0.0, 0.0, 1.0, 1.0)),
        ([(1, 0.1), (3, 0.1), (4, 0.1)], (3, 0.1, 8 / 3, 0.0, 0.0, 14 / 3, None, None, None)),
        ([(None, 2)], (0, *[None] * 8)),
    ],
)  # fmt: skip
def test_a_regression_gives_what_spark_gives(pairs: Any, expected: tuple[Any, ...]) -> None:
    assert regressions(pairs) == {
        name: each if each is None else pytest.approx(each, rel=1e-14)
        for name, each in zip(NAMES, expected, strict=True)
    }


def test_a_filter_is_of_each_part_of_a_regression() -> None:
    assert regressions(PAIRS, "FILTER (WHERE x < 5)") == regressions(PAIRS[:3])


def test_a_regression_stands_in_windows_and_keeps_its_name() -> None:
    rows = from_arrow(pa.table({"n": [1, 2, 3], "y": [1.0, 3.0, 5.5], "x": [1.0, 2.0, 3.0]}))
    text = "SELECT regr_slope(y, x) OVER (ORDER BY n), 1 + regr_count(y, x + 1) OVER () c FROM r"
    found = query(text, r=rows).to_arrow()
    assert found.column_names == ["regr_slope(y, x) OVER (ORDER BY n)", "c"]
    assert found[0].to_pylist() == [None, 2.0, pytest.approx(2.25)]
    assert found["c"].to_pylist() == [4, 4, 4]


def test_a_regression_of_distinct_rows_is_refused() -> None:
    rows = from_arrow(pa.table({"y": [1.0], "x": [2.0]}))
    for text in ("regr_slope(DISTINCT y, x)", "regr_slope(y)"):
        with pytest.raises(QueryError, match="regr_slope takes"):
            query(f"SELECT {text} FROM r", r=rows).to_arrow()
