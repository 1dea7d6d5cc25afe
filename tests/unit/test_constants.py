"""Values that stand in the code are those that pyarrow makes."""

from decimal import Decimal

import pyarrow as pa
import pytest

from pkray import constants


def test_texts_are_an_array_of_them():
    assert constants.texts(["a", "", "\u00fc"]).equals(pa.array(["a", "", "\u00fc"]))
    assert constants.texts([]).equals(pa.array([], pa.string()))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, pa.list_(pa.int8())),
        ("\u00fc", pa.string()),
        (True, pa.bool_()),
        (False, pa.bool_()),
        (-128, pa.int8()),
        (2**64 - 1, pa.uint64()),
        (1.5, pa.float64()),
        (1.5, pa.float32()),
        (3, pa.float64()),
        (7, pa.date32()),
        (Decimal("1.50"), pa.decimal128(5, 2)),
        (b"\x00", pa.binary()),
        ([1, None], pa.list_(pa.int64())),
    ],
)
def test_a_scalar_is_the_one_of_pyarrow(value, kind):
    assert constants.scalar(value, kind).equals(pa.scalar(value, kind))


@pytest.mark.parametrize(("value", "kind"), [(128, pa.int8()), ("a", pa.int8())])
def test_a_scalar_is_refused_as_by_pyarrow(value, kind):
    with pytest.raises(Exception) as theirs:
        pa.scalar(value, kind)
    with pytest.raises(type(theirs.value)):
        constants.scalar(value, kind)
