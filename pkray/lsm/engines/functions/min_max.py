"""min and max."""

from typing import ClassVar

import numpy as np
import pyarrow as pa

from pkray.lsm.engines.functions.function import SkippingNulls
from pkray.lsm.engines.segments import Segments, take_numbers
from pkray.lsm.keys.key_encoding import sort_columns
from pkray.lsm.keys.key_groups import taken
from pkray.lsm.keys.keys import NormalizedKeys, sort_within_groups


class _MinMax(SkippingNulls):
    """Nulls are skipped; NaN is the largest number, -0.0 smaller than 0.0, text in byte order."""

    any_order: ClassVar[bool] = True
    image_replaces = True
    largest: ClassVar[bool]

    @property
    def merges_its_type(self) -> bool:
        return self.data_type.root not in ("BOOLEAN", "ARRAY", "MAP", "MULTISET", "ROW")

    def merge_values(self, column: pa.Array, rows: Segments) -> pa.Array:
        if len(rows.order) == len(rows):
            return take_numbers(column, rows.numbers(rows.starts))
        values = taken(column, pa.array(rows.order))
        (words,) = sort_columns(values, signed_zeros=True)
        if words.width == 1 and not words.tail:
            places = self._place_of_word(words.chunk(0), rows)
        else:
            keys = NormalizedKeys([values])
            order = np.arange(len(values))
            by_size = sort_within_groups(order, rows.starts, keys)
            places = by_size[rows.ends - 1 if self.largest else rows.starts]
        return rows.spread(taken(values, pa.array(places)))

    def _place_of_word(self, word: np.ndarray, rows: Segments) -> np.ndarray:
        operation = np.maximum if self.largest else np.minimum
        best = operation.reduceat(word, rows.starts)
        if len(rows.order) == len(rows):
            return rows.starts
        hit = word == np.repeat(best, rows.sizes)
        return rows.last_place(hit)


class Max(_MinMax):
    """Keeps the largest value."""

    name: ClassVar[str] = "max"
    largest: ClassVar[bool] = True


class Min(_MinMax):
    """Keeps the smallest value."""

    name: ClassVar[str] = "min"
    largest: ClassVar[bool] = False
