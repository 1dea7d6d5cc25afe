"""Parts of text by the characters' numbers, for each row its own."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.functions.function import Value
from pkray.relational.functions.values import as_array, numpy_of, validity


def bytes_of(texts: pa.Array) -> tuple[Any, Any]:
    """Give the offsets (int64, one more than there are rows) and bytes of text."""
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return starts.astype(np.int64), raw


def is_ascii(value: Value) -> bool:
    """Whether text certainly has no characters of several bytes."""
    if isinstance(value, pa.Scalar):
        return False
    data = value.buffers()[2]
    return data is None or not (np.frombuffer(data, np.int8) < 0).any()


def join_bytes(raw: Any, starts: Any, stops: Any, kind: pa.DataType) -> pa.Array:
    """Make text of the bytes from `starts` up to `stops`, one a row."""
    lengths = stops - starts
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    data = pa.py_buffer(raw[places].tobytes())
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), data]
    return pa.Array.from_buffers(kind, len(lengths), buffers)


def slice_rows(texts: pa.Array, starts: Any, stops: Any) -> pa.Array:
    """Take characters from `starts` up to `stops` (int64, from 0, one a row; kept in bounds)."""
    offsets, raw = bytes_of(texts)
    low, high = offsets[0], offsets[-1]
    if texts.type == pa.binary():
        begins = np.arange(low, high + 1)
    else:
        begins = np.append(np.flatnonzero((raw[low:high] & 0xC0) != 0x80) + low, high)
    first = np.searchsorted(begins, offsets)
    count = np.diff(first)
    starts = np.clip(starts, 0, count)
    stops = np.maximum(np.clip(stops, 0, count), starts)
    found = join_bytes(raw, begins[first[:-1] + starts], begins[first[:-1] + stops], texts.type)
    if not texts.null_count:
        return found
    return pc.if_else(texts.is_valid(), found, pa.scalar(None, texts.type))


def lengths_of(value: Value) -> Value:
    """Count characters (of BYTES: bytes)."""
    return pc.binary_length(value) if value.type == pa.binary() else pc.utf8_length(value)


def characters_before(texts: pa.Array, places: pa.Array) -> Any:
    """Count the characters before a byte of each text (int32; below 0: none)."""
    offsets, raw = bytes_of(texts)
    low, high = offsets[0], offsets[-1]
    begun = np.concatenate(([0], np.cumsum((raw[low:high] & 0xC0) != 0x80)))
    at = np.maximum(places.fill_null(0).to_numpy(zero_copy_only=False), 0).astype(np.int64)
    start = offsets[:-1] - low
    return begun[start + at] - begun[start]


def code_points(texts: pa.Array) -> tuple[Any, Any]:
    """Give all code points (int64), and where each row's begin (int64, one more than rows)."""
    whole = pc.fill_null(texts, "")
    offsets, raw = bytes_of(whole)
    said = raw[offsets[0] : offsets[-1]].tobytes().decode()
    points = np.frombuffer(said.encode("utf-32-le"), np.uint32).astype(np.int64)
    starts = np.concatenate(([0], np.cumsum(pc.utf8_length(whole).to_numpy(), dtype=np.int64)))
    return points, starts


def spelled(points: Any, copies: Any, starts: Any, texts: pa.Array) -> pa.Array:
    """Make text of code points, NULL where `texts` is.

    Args:
        points: int64; `copies`: int64, how often each of them stands there.
        starts: as `code_points` gives them.
    """
    starts = np.concatenate(([0], np.cumsum(copies)))[starts]
    points = np.repeat(points, copies)
    size = sum((points >= least).astype(np.int64) for least in (0, 0x80, 0x800, 0x10000))
    ends = np.concatenate(([0], np.cumsum(size)))[starts].astype(np.int32)
    data = points.astype("<u4").tobytes().decode("utf-32-le").encode()
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    made = pa.Array.from_buffers(pa.string(), len(texts), buffers)
    if not texts.null_count:
        return made
    return pc.if_else(texts.is_valid(), made, pa.scalar(None, pa.string()))


def sliced(text: Value, start: Value, stop: Value, rows: int) -> Value:
    """Take characters from `start` up to `stop` (from 0; negative ones are 0)."""
    if isinstance(start, pa.Scalar) and isinstance(stop, pa.Scalar):
        if not start.is_valid or not stop.is_valid:
            return pa.scalar(None, text.type)
        first = min(max(start.as_py(), 0), 2**31 - 1)
        last = min(max(stop.as_py(), first), 2**31 - 1)
        if text.type == pa.string():
            return pc.utf8_slice_codeunits(text, first, last)
        return pc.binary_slice(text, first, last)
    array = as_array(text, rows)
    found = slice_rows(array, numpy_of(start), numpy_of(stop))
    known = [each.is_valid() for each in (start, stop) if isinstance(each, pa.Array)]
    known += [pa.scalar(each.is_valid) for each in (start, stop) if isinstance(each, pa.Scalar)]
    good = pc.and_(*known)
    return pc.if_else(good, found, pa.scalar(None, text.type))


def per_constants(
    values: Sequence[Value],
    constant: Sequence[int],
    compute: Callable[[Sequence[Value], int], Value],
    kind: pa.DataType,
    rows: int,
) -> Value:
    """Compute for each distinct combination of some arguments, as scalars, its rows.

    Where one of them is NULL the result is NULL. Where they differ from row to row, rows with a
    NULL in any argument are NULL and not computed.

    Args:
        constant: the positions of those arguments.
    """
    columns = [position for position in constant if not isinstance(values[position], pa.Scalar)]
    if any(isinstance(values[p], pa.Scalar) and not values[p].is_valid for p in constant):
        return pa.scalar(None, kind)
    if not columns:
        return compute(values, rows)
    codes, count = np.zeros(rows, np.int64), 1
    for position in columns:
        encoded = values[position].dictionary_encode()
        indices = encoded.indices.fill_null(0).to_numpy()
        codes, count = codes * max(len(encoded.dictionary), 1) + indices, count + 1
    order = np.argsort(codes, kind="stable")
    valid = validity(values)
    if valid is not None:
        order = order[numpy_of(as_array(valid, rows))[order]]
    if not len(order):
        return pa.nulls(rows, kind)
    parts, starts = [], np.flatnonzero(np.diff(codes[order], prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        chosen = pa.array(order[start:stop])
        some = [_taken(v, chosen, p in constant) for p, v in enumerate(values)]
        parts.append(as_array(compute(some, len(chosen)), len(chosen)))
    places = np.full(rows, -1, np.int64)
    places[order] = np.arange(len(order))
    return pa.concat_arrays(parts).take(pa.array(places, mask=places < 0))


def _taken(value: Value, rows: pa.Array, is_constant: bool) -> Value:
    if isinstance(value, pa.Scalar):
        return value
    return value[rows[0].as_py()] if is_constant else value.take(rows)
