"""Arrow values as Python has them, and those that it has not."""

import pyarrow as pa
import pytest

from pkray.rows.python_values import to_python, to_python_list

FAR = pa.array([3_000_000], pa.int32()).view(pa.date32())
"""A day of the year 10183."""


def test_values_are_python_s_own_where_it_has_them() -> None:
    assert to_python_list(pa.array([1, None, "a"][:2])) == [1, None]
    assert to_python(pa.scalar([1.5, None])) == [1.5, None]


def test_times_that_python_has_none_for_are_text() -> None:
    assert to_python_list(FAR) == ["10183-09-21"]
    assert to_python_list(pa.chunked_array([FAR, [None]], pa.date32())) == ["10183-09-21", None]
    assert to_python(pa.scalar(2**58, pa.timestamp("us"))).startswith("11103-")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (pa.ListArray.from_arrays([0, 1], FAR), ["10183-09-21"]),
        (pa.StructArray.from_arrays([FAR], ["d"]), {"d": "10183-09-21"}),
        (pa.MapArray.from_arrays([0, 1], pa.array(["k"]), FAR), [("k", "10183-09-21")]),
    ],
)
def test_they_are_text_in_nested_values_too(value: pa.Array, expected: object) -> None:
    assert to_python_list(value) == [expected]
