"""Values taken from segments."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from pkray.lsm.engines.segments import Segments, take_numbers, take_valid

COLUMNS = {
    "int8": pa.array([1, None, 3, 4], pa.int8()),
    "double": pa.array([1.5, None, -0.0, 4]),
    "timestamp": pa.array([1, None, 3, 4], pa.timestamp("us", "UTC")),
    "decimal": pa.array([Decimal("1.50"), None, Decimal("-3.25"), 4], pa.decimal128(30, 2)),
    "boolean": pa.array([True, None, False, True]),
    "string": pa.array(["a", None, "", "dd"]),
    "list": pa.array([[1], None, [], [4, 4]]),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize(
    "numbers", [[3, 0, 2, 2, 0, 3, 2, 0, 3], [2, -1, 0, -1], [-1], []], ids=str
)
def test_rows_that_are_not_null_are_taken(column, numbers):
    wanted = np.array(numbers, np.int64)
    found = take_valid(column, wanted)
    found.validate(full=True)
    assert found.equals(take_numbers(column, wanted))
    places = np.where(wanted > 0, wanted - 1, wanted)[wanted != 0]  # of a slice
    assert take_valid(column.slice(1), places).equals(take_numbers(column.slice(1), places))


def test_a_segments_last_row_that_is_not_null():
    segments = Segments(np.array([2, 0, 1, 4, 3]), np.array([0, 2, 3]), 3)
    column = pa.array([10, None, None, None, 14])
    places = segments.last_valid(column)
    assert places.tolist() == [1, -1, 3]
    assert segments.numbers(places).tolist() == [0, -1, 4]
    assert (segments.sizes.tolist(), segments.ends.tolist()) == ([2, 1, 2], [2, 3, 5])
