"""bool_and and bool_or."""

from typing import ClassVar

import numpy as np
import pyarrow as pa

from pkray.lsm.engines.functions.function import SkippingNulls
from pkray.lsm.engines.segments import Segments, bits_at


class _Boolean(SkippingNulls):
    """Nulls are skipped."""

    any_order: ClassVar[bool] = True
    image_replaces = True
    operation: ClassVar[np.ufunc]

    @property
    def merges_its_type(self) -> bool:
        return self.data_type.root == "BOOLEAN"

    def merge_values(self, column: pa.Array, rows: Segments) -> pa.Array:
        values = bits_at(column.buffers()[1], column.offset, rows.order)
        return rows.spread(pa.array(self.operation.reduceat(values, rows.starts)))


class BoolAnd(_Boolean):
    """True while every value is."""

    name: ClassVar[str] = "bool_and"
    operation: ClassVar[np.ufunc] = np.logical_and


class BoolOr(_Boolean):
    """True as soon as one value is."""

    name: ClassVar[str] = "bool_or"
    operation: ClassVar[np.ufunc] = np.logical_or
