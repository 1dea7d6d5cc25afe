"""Conditions as Arrow's scanners take them."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from pkray.relational.filters import to_exact_filter, to_filter
from pkray.relational.functions.evaluation.compiled import compile_expression
from tests.unit.relational.expressions import bound, fields

COLUMNS = fields(a="INT", x="DOUBLE", s="STRING", o="BOOLEAN", day="DATE")
ROWS: dict[str, Any] = {
    "a": [1, 2, None, 4],
    "x": [1.0, math.nan, None, -0.0],
    "s": ["abc", "b", None, ""],
    "o": [True, False, None, True],
    "day": [18262, 18263, None, 0],
}
TABLE = pa.table(
    [pa.array(some, COLUMNS[name].type.arrow) for name, some in ROWS.items()], schema=COLUMNS.arrow
)


@pytest.mark.parametrize(
    "text",
    [
        "a > 1",
        "2 <= a",
        "a <> 2",
        "x > 0.5D",
        "x <= 1D",
        "NOT x < 1D",
        "s = 'abc' OR a = 4",
        "NOT (a = 1 AND o)",
        "a IN (1, 4)",
        "a NOT IN (1, 4)",
        "s IS NULL",
        "s IS NOT NULL AND o",
        "s LIKE 'ab%'",
        "day >= '2020-01-01'",
        "a BETWEEN 1 + 1 AND 3",
    ],
)
def test_an_exact_filter_keeps_the_same_rows(text: str) -> None:
    condition = bound(text, COLUMNS)
    written = to_exact_filter(condition)
    assert written is not None
    batch = TABLE.to_batches()[0]
    expected = batch.filter(compile_expression(condition, COLUMNS).evaluate(batch))
    assert TABLE.filter(written).column("a").to_pylist() == expected.column("a").to_pylist()


@pytest.mark.parametrize(
    ("text", "kept"),
    [("a > 1 AND length(s) = 1", [2, 4]), ("a > 1 AND s LIKE '%b'", [2, 4])],
)
def test_parts_that_a_scanner_cannot_compute_are_left_out(text: str, kept: list[int]) -> None:
    condition = bound(text, COLUMNS)
    assert to_exact_filter(condition) is None
    written = to_filter(condition)
    assert written is not None
    assert TABLE.filter(written).column("a").to_pylist() == kept


@pytest.mark.parametrize("text", ["length(s) > 1", "a + 1 > 2", "NOT (a > 1 AND length(s) = 1)"])
def test_what_cannot_be_written_gives_no_filter(text: str) -> None:
    assert to_filter(bound(text, COLUMNS)) is None
