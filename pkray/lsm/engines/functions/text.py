"""listagg."""

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.keys import value_codes
from pkray.lsm.engines.functions.function import SkippingNulls
from pkray.lsm.engines.segments import Segments
from pkray.lsm.keys.key_groups import taken
from pkray.lsm.keys.list_parts import first_of_each, list_array
from pkray.options.fields import FieldOptions
from pkray.schema.types import STRINGS, DataType


class ListAgg(SkippingNulls):
    """The strings that are not null, joined in order.

    With ``fields.<field>.distinct`` the parts between delimiters are joined, each one once, empty
    ones left out.
    """

    name: ClassVar[str] = "listagg"

    def __init__(self, field: str, data_type: DataType, options: FieldOptions) -> None:
        super().__init__(field, data_type, options)
        self.delimiter = options.list_agg_delimiter
        self.distinct = options.distinct
        self.keeps_single = not self.distinct

    @property
    def merges_its_type(self) -> bool:
        return self.data_type.root in STRINGS

    def merge_values(self, column: pa.Array, rows: Segments) -> pa.Array:
        texts = taken(column, pa.array(rows.order))
        if self.distinct:
            parts, offsets = self._distinct_parts(texts, rows)
        elif len(rows.order) == len(rows):
            return rows.spread(texts)
        else:
            parts, offsets = texts, np.append(rows.starts, len(rows.order))
        joined = pc.binary_join(list_array(pa.list_(pa.string()), offsets, parts), self.delimiter)
        return rows.spread(joined)

    def _distinct_parts(self, texts: pa.Array, rows: Segments) -> tuple[pa.Array, np.ndarray]:
        """Return the parts to join, and where each key's begin."""
        segment = rows.of_place()
        if self.delimiter:
            split = pc.split_pattern(texts, self.delimiter)
            segment = np.repeat(segment, pc.list_value_length(split).to_numpy())
            texts = split.flatten()
        kept = pc.not_equal(texts, "").to_numpy(zero_copy_only=False)
        texts, segment = texts.filter(pa.array(kept)), segment[kept]
        kept = first_of_each(segment, value_codes(texts))
        counts = np.bincount(segment[kept], minlength=len(rows))
        return texts.filter(pa.array(kept)), np.concatenate([[0], np.cumsum(counts)])
