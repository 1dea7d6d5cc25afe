"""Encode values of any type as numbers: equal values have equal numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.lsm.keys.list_parts import Ints, list_parts


def codes(values: pa.Array) -> Ints:
    """Encode values of any type as dense numbers from 0: int64, one a value; nulls are equal to
    each other."""
    kind = values.type
    if pa.types.is_struct(kind):
        return _of_tuples([_validity(values), *(codes(child) for child in values.flatten())])
    if pa.types.is_map(kind):
        lengths, entries = list_parts(values)
        keys = codes(entries.field("key"))
        by_key = np.lexsort((keys, np.repeat(np.arange(len(values)), lengths)))
        pairs = _of_tuples([keys[by_key], codes(entries.field("value"))[by_key]])
        return _of_lists(values, lengths, pairs)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths, elements = list_parts(values)
        return _of_lists(values, lengths, codes(elements))
    return _numbers(values)


def _validity(values: pa.Array) -> Ints:
    return pc.is_valid(values).to_numpy(zero_copy_only=False).astype(np.int64)


def _of_tuples(columns: list[Ints]) -> Ints:
    rows = np.ascontiguousarray(np.stack(columns, axis=1)) if len(columns[0]) else np.empty(0)
    kind = pa.binary(8 * len(columns))
    return _numbers(pa.Array.from_buffers(kind, len(columns[0]), [None, pa.py_buffer(rows)]))


def _of_lists(values: pa.Array, lengths: Ints, elements: Ints) -> Ints:
    offsets = np.concatenate([[0], np.cumsum(lengths)]) * 8
    mask = pa.array(_validity(values).astype(bool)).buffers()[1] if values.null_count else None
    buffers = [mask, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(elements))]
    return _numbers(pa.Array.from_buffers(pa.large_binary(), len(values), buffers))


def _numbers(values: pa.Array) -> Ints:
    if not len(values):
        return np.empty(0, np.int64)
    encoded = pc.dictionary_encode(values, null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64)
