"""Values of one width are gathered as arrow takes them."""

import decimal

import numpy as np
import pyarrow as pa
import pytest

from pkray.lsm.keys.fixed_width import FixedWidthColumn
from pkray.lsm.keys.key_groups import take

COLUMNS = {
    "int8": pa.array([1, -2, 3, 4, 5], pa.int8()),
    "float": pa.array([1.5, -0.0, 3, float("nan"), 5], pa.float32()),
    "timestamp": pa.array([1, 2, 3, 4, 5], pa.timestamp("us")),
    "decimal": pa.array(
        [decimal.Decimal(i).scaleb(-2) for i in range(-2, 3)], pa.decimal128(30, 2)
    ),
    "string": pa.array(["abc", "def", "ghi", "äb", "mno"]),
    "binary": pa.array([bytes([i]) * 8 for i in range(5)]),
}
OTHERS = {
    "nulls": pa.array([1, None, 3, 4, 5]),
    "no nulls but a null string": pa.array(["abc", None, "ghi", "jkl", "mno"]),
    "widths": pa.array(["abc", "d", "ghijk", "lmn", "opq"]),
    "empty strings": pa.array([""] * 5),
    "bits": pa.array([True, False, True, True, False]),
    "nested": pa.array([[1], [2], [], [3], [4]]),
}
NUMBERS = {"some": np.array([3, 0, 3, 1]), "none": np.empty(0, np.int64)}


@pytest.mark.parametrize("numbers", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("start", [0, 1])
def test_values_are_those_of_the_rows(column: pa.Array, numbers: np.ndarray, start: int) -> None:
    some = column.slice(start)
    values = FixedWidthColumn.from_array(some)
    assert values is not None
    found = values.gathered(numbers)
    assert found is not None
    found.validate(full=True)
    expected = some.take(pa.array(numbers))
    assert found.type == column.type
    assert str(found.to_pylist()) == str(expected.to_pylist())  # NaN is itself here


@pytest.mark.parametrize("column", OTHERS.values(), ids=OTHERS)
def test_other_columns_are_left_to_arrow(column: pa.Array) -> None:
    assert FixedWidthColumn.from_array(column) is None


def test_rows_are_taken_column_by_column() -> None:
    rows = pa.RecordBatch.from_pydict({**COLUMNS, **OTHERS}).slice(1)
    taken = take(rows, NUMBERS["some"])
    taken.validate(full=True)
    assert str(taken.to_pylist()) == str(rows.take(pa.array(NUMBERS["some"])).to_pylist())
