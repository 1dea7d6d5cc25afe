"""bool_and and bool_or."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from pkray.lsm.engines.functions.function import AggregateFunction
from pkray.lsm.engines.segments import Segments, bits_at


class _Logic(AggregateFunction):
    """Nulls are skipped."""

    any_order: ClassVar[bool] = True
    image_replaces = True
    roots: ClassVar[tuple[str, ...] | None] = ("BOOLEAN",)
    operation: ClassVar[np.ufunc]

    def merge(self, column: pa.Array, rows: Segments) -> pa.Array:
        rows = rows.valid(column)
        if not len(rows):
            return pa.nulls(rows.keys, column.type)
        values = bits_at(column.buffers()[1], column.offset, rows.order)
        return rows.spread(pa.array(self.operation.reduceat(values, rows.starts)))


class BoolAnd(_Logic):
    name: ClassVar[str] = "bool_and"
    operation: ClassVar[np.ufunc] = np.logical_and


class BoolOr(_Logic):
    name: ClassVar[str] = "bool_or"
    operation: ClassVar[np.ufunc] = np.logical_or
