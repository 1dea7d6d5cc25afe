"""Arrays and maps of a column, taken apart and put together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from pkray.columns.batches import spread
from pkray.columns.keys import list_parts
from pkray.relational.functions.function import Value
from pkray.relational.functions.values import as_array
from pkray.schema.types import DataType


@dataclass(frozen=True)
class Lists:
    """The elements of an ARRAY column, or the keys of a MAP column, one after the other.

    Attributes:
        lengths: int64, one a row; 0 for NULL.
        values: all elements.
        null: which rows are NULL; None: none is.
        items: of a map, the values beside the keys.
    """

    lengths: np.ndarray
    values: pa.Array
    null: np.ndarray | None = None
    items: pa.Array | None = None

    @staticmethod
    def of(value: Value, rows: int) -> Lists:
        """Take a column apart."""
        array = as_array(value, rows)
        starts, lengths, children = list_parts(array)
        if not rows or np.array_equal(starts, starts[0] + np.cumsum(lengths) - lengths):
            begin = int(starts[0]) if rows else 0
            parts = [child.slice(begin, int(lengths.sum())) for child in children]
        else:
            taken = pa.array(spread(starts, lengths))
            parts = [child.take(taken) for child in children]
        null = np.asarray(array.is_null()) if array.null_count else None
        return Lists(lengths, parts[0], null, parts[1] if len(parts) > 1 else None)

    @cached_property
    def parents(self) -> np.ndarray:
        """Say for each element which row it is of."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @cached_property
    def begins(self) -> np.ndarray:
        """Say for each row where its elements begin."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def places(self) -> np.ndarray:
        """Say for each element its place in its row, from 0."""
        return np.arange(len(self.parents)) - self.begins[self.parents]

    def chosen(self, elements: np.ndarray) -> Lists:
        """Keep some elements, in the order given, which keeps rows together."""
        taken = pa.array(elements)
        lengths = np.bincount(self.parents[elements], minlength=len(self.lengths))
        items = None if self.items is None else self.items.take(taken)
        return Lists(lengths, self.values.take(taken), self.null, items)

    def array(self, kind: DataType, null: np.ndarray | None = None) -> pa.Array:
        """Make a column of a type; rows are NULL where they were, and where `null` is true."""
        if null is None or self.null is None:
            null = self.null if null is None else null
        else:
            null = null | self.null
        arrow = kind.arrow
        places = pa.array(np.concatenate(([0], np.cumsum(self.lengths))), pa.int32())
        mask = None if null is None else pa.array(null)
        if self.items is not None and pa.types.is_map(arrow):
            keys, items = _typed(self.values, arrow.key_type), _typed(self.items, arrow.item_type)
            return pa.MapArray.from_arrays(places, keys, items, type=arrow, mask=mask)
        values = _typed(self.values, arrow.value_type)
        return pa.ListArray.from_arrays(places, values, type=arrow, mask=mask)


def _typed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type.equals(kind) else array.cast(kind)


def whole_numbers(value: Value, rows: int, of_null: int = 0) -> np.ndarray:
    """Give integers as int64.

    Args:
        of_null: what stands for NULL.
    """
    return np.asarray(as_array(value, rows).fill_null(of_null)).astype(np.int64)
