"""Functions that pick the value of one row: the first or the last."""

from typing import ClassVar

import numpy as np
import pyarrow as pa

from pkray.lsm.engines.functions.function import AggregateFunction
from pkray.lsm.engines.segments import Segments, take_numbers
from pkray.options.fields import FieldOptions
from pkray.schema.types import DataType


class LastValue(AggregateFunction):
    """The last row's value, null or not; taking back leaves null."""

    name: ClassVar[str] = "last_value"
    skips_late: ClassVar[bool] = True
    takes_back: ClassVar[bool] = True
    image_replaces = True

    def merge(self, column: pa.Array, rows: Segments) -> pa.Array:
        return take_numbers(column, rows.numbers(_unless_retract(rows, rows.ends - 1)))


class LastNonNullValue(AggregateFunction):
    """The last value that is not null; taking back a value leaves null, a null leaves it."""

    name: ClassVar[str] = "last_non_null_value"
    takes_back: ClassVar[bool] = True

    def __init__(self, field: str, data_type: DataType, options: FieldOptions) -> None:
        super().__init__(field, data_type, options)
        self.image_replaces = self.ignores_retract

    def merge(self, column: pa.Array, rows: Segments) -> pa.Array:
        places = _unless_retract(rows, rows.last_valid(column))
        return take_numbers(column, rows.numbers(places))


class FirstValue(AggregateFunction):
    """The first row's value, null or not."""

    name: ClassVar[str] = "first_value"
    late_replaces: ClassVar[bool] = True
    image_replaces = True

    def merge(self, column: pa.Array, rows: Segments) -> pa.Array:
        return take_numbers(column, rows.numbers(rows.starts))


class FirstNonNullValue(AggregateFunction):
    """The first value that is not null."""

    name: ClassVar[str] = "first_non_null_value"
    skips_nulls: ClassVar[bool] = True
    late_replaces: ClassVar[bool] = True
    image_replaces = True

    def merge(self, column: pa.Array, rows: Segments) -> pa.Array:
        valid = rows.valid(column)
        return take_numbers(column, valid.numbers(valid.starts))


class FirstNotNullValue(FirstNonNullValue):
    """The older name."""

    name: ClassVar[str] = "first_not_null_value"


def _unless_retract(rows: Segments, places: np.ndarray) -> np.ndarray:
    if rows.retract is None:
        return places
    return np.where(rows.retract[places], -1, places)
