"""Rows as bytes that compare as the rows do.

Each value begins with a byte that says whether it is NULL and where NULLs stand; then come numbers,
dates and times as big-endian bytes with the sign turned, texts and bytes with their zeros escaped
and two zeros at the end, the parts of ROWs one after the other, the elements of ARRAYs and MAPs
with a zero at the end, those of MAPs in the order of their bytes.

Equal rows give equal bytes: NaN is one value and greater than others; 0.0 and -0.0
differ, -0.0 being less, unless they are to be alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import spread, whole
from pkray.columns.keys import argsort, dense_ranks, list_parts
from pkray.errors import UnsupportedError

_NULL_FIRST, _VALID, _NULL_LAST = 1, 2, 3
_END = 0


@dataclass(frozen=True)
class _Block:
    """Bytes of n rows.

    Attributes:
        data: uint8; of rows of one width (n, width), else all bytes, one row after another.
        lengths: int64, one a row; None where `data` has two dimensions.
    """

    data: np.ndarray
    lengths: np.ndarray | None = None

    def sizes(self, rows: int) -> np.ndarray:
        if self.lengths is not None:
            return self.lengths
        return np.full(rows, self.data.shape[1], np.int64)


def encoded(
    columns: Sequence[pa.Array | pa.ChunkedArray],
    rows: int | None = None,
    *,
    descending: Sequence[bool] = (),
    nulls_first: Sequence[bool] = (),
    equal_zeros: bool = False,
) -> pa.Array:
    """Encode rows.

    Args:
        columns: arrays of one length.
        rows: that length; needed where there is no column.
        descending, nulls_first: one a column; by default ascending and NULLs first.
        equal_zeros: 0.0 and -0.0 are alike, as they are when rows are sorted.

    Returns:
        a BINARY array: its values compare byte by byte as the rows do.

    Raises:
        UnsupportedError: a column's type has no order.
    """
    count = len(columns[0]) if columns else int(rows or 0)
    down = descending or [False] * len(columns)
    first = nulls_first or [True] * len(columns)
    blocks = [
        _with_nulls(whole(column), turned, placed, equal_zeros)
        for column, turned, placed in zip(columns, down, first, strict=True)
    ]
    return _as_binary(_joined(blocks, count), count)


def identified(columns: Sequence[pa.Array | pa.ChunkedArray], rows: int | None = None) -> pa.Array:
    """Encode rows so that equal ones can be found: shorter than `encoded`, and in no order.

    The values come first, so that keys differ early; which of them are NULL is said at the end, by
    rows that have any.

    Args:
        columns, rows: as of `encoded`.
    """
    count = len(columns[0]) if columns else int(rows or 0)
    arrays = [whole(column) for column in columns]
    blocks = [_values(array, equal_zeros=False) for array in arrays]
    if any(array.null_count for array in arrays):
        null = np.stack([np.asarray(array.is_null()) for array in arrays], axis=1)
        lengths = np.where(null.any(axis=1), len(arrays), 0)
        blocks.append(_Block(null[lengths > 0].astype(np.uint8).reshape(-1), lengths))
    return _as_binary(_joined(blocks, count), count)


def distinct(keys: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """List encoded rows once each; beside them give the number of each row there: int64."""
    named = keys.dictionary_encode()
    return named.dictionary, np.asarray(named.indices).astype(np.int64)


def _as_binary(block: _Block, rows: int) -> pa.Array:
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(block.sizes(rows), out=offsets[1:])
    data = np.ascontiguousarray(block.data).reshape(-1)
    if offsets[-1] >= 2**31:
        raise UnsupportedError(
            f"the keys of one epoch take {offsets[-1]} bytes: give fewer rows an epoch"
        )
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


def _joined(blocks: Sequence[_Block], rows: int) -> _Block:
    """Put the bytes of several values of a row one after the other."""
    if not blocks:
        return _Block(np.zeros((rows, 0), np.uint8))
    if len(blocks) == 1:
        return blocks[0]
    if all(block.lengths is None for block in blocks):
        return _Block(np.concatenate([block.data for block in blocks], axis=1))
    sizes = [block.sizes(rows) for block in blocks]
    total = np.sum(sizes, axis=0)
    starts = np.cumsum(total) - total
    data = np.empty(int(total.sum()), np.uint8)
    for block, size in zip(blocks, sizes, strict=True):
        data[spread(starts, size)] = block.data.reshape(-1)
        starts = starts + size
    return _Block(data, total)


def _with_nulls(array: pa.Array, descending: bool, nulls_first: bool, equal_zeros: bool) -> _Block:
    """Encode a column with the byte that says which values are NULL."""
    rows = len(array)
    marks = np.full((rows, 1), _VALID, np.uint8)
    values = _values(array, equal_zeros)
    if descending:
        values = _Block(~values.data, values.lengths)
    if not array.null_count:
        return _joined([_Block(marks), values], rows)
    null = np.asarray(array.is_null())
    marks[null, 0] = _NULL_FIRST if nulls_first else _NULL_LAST
    sizes = values.sizes(rows)
    kept = values.data.reshape(-1)[np.repeat(~null, sizes)]
    return _joined([_Block(marks), _Block(kept, np.where(null, 0, sizes))], rows)


def _values(array: pa.Array, equal_zeros: bool) -> _Block:
    """Encode values; what stands in the place of a NULL does not matter."""
    kind = array.type
    if pa.types.is_boolean(kind):
        bits = np.asarray(pc.fill_null(array, False)).astype(np.uint8)
        return _Block(bits.reshape(-1, 1))
    if pa.types.is_null(kind):
        return _Block(np.zeros((len(array), 0), np.uint8))
    if pa.types.is_floating(kind):
        return _Block(_floats(array, equal_zeros))
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        width = kind.bit_width // 8
        is_time = pa.types.is_temporal(kind)
        plain = array.view(pa.int32() if width == 4 else pa.int64()) if is_time else array
        return _Block(_integers(np.asarray(pc.fill_null(plain, 0)), width))
    if pa.types.is_decimal(kind):
        return _Block(_decimals(array))
    if _is_bytes(kind):
        return _texts(array)
    if pa.types.is_struct(kind):
        parts = [pc.struct_field(array, [i]) for i in range(kind.num_fields)]
        return _joined([_with_nulls(whole(p), False, True, equal_zeros) for p in parts], len(array))
    if pa.types.is_list(kind) or pa.types.is_map(kind) or pa.types.is_large_list(kind):
        return _lists(array, equal_zeros)
    raise UnsupportedError(f"values of type {kind} have no order to make keys of")


def _is_bytes(kind: pa.DataType) -> bool:
    checks = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_fixed_size_binary,
    )
    return any(check(kind) for check in checks)


def _integers(values: np.ndarray, width: int) -> np.ndarray:
    """Turn the sign bit and write big-endian bytes: (n, width)."""
    unsigned = np.ascontiguousarray(values).view(f"u{width}")
    turned = unsigned ^ unsigned.dtype.type(1 << (8 * width - 1))
    return turned.astype(f">u{width}").view(np.uint8).reshape(-1, width)


def _floats(array: pa.Array, equal_zeros: bool) -> np.ndarray:
    width = array.type.bit_width // 8
    values = np.array(pc.fill_null(array, 0.0))
    if equal_zeros:
        values = values + values.dtype.type(0)
    values[np.isnan(values)] = np.nan
    bits = values.view(f"i{width}")
    greatest = bits.dtype.type(np.iinfo(bits.dtype).max)
    return _integers(np.where(bits < 0, bits ^ greatest, bits), width)


def _decimals(array: pa.Array) -> np.ndarray:
    width = array.type.bit_width // 8
    filled = pc.fill_null(array, pa.scalar(0, array.type)) if array.null_count else array
    data = np.frombuffer(filled.buffers()[1], np.uint8)
    start = filled.offset * width
    values = data[start : start + width * len(filled)].reshape(-1, width)[:, ::-1].copy()
    values[:, 0] ^= 0x80
    return values


def _texts(array: pa.Array) -> _Block:
    """Escape zeros as 00 FF, and end with 00 00."""
    plain = array.cast(pa.large_binary())
    if plain.null_count:
        plain = pc.fill_null(plain, b"")
    rows = len(plain)
    offsets = np.frombuffer(plain.buffers()[1], np.int64)[plain.offset : plain.offset + rows + 1]
    buffer = plain.buffers()[2]
    data = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
    data = data[offsets[0] : offsets[-1]]
    lengths = np.diff(offsets)
    zeros = data == 0
    if zeros.any():
        repeats = 1 + zeros
        owner = np.repeat(np.arange(rows), lengths)
        lengths = np.bincount(owner, weights=repeats, minlength=rows).astype(np.int64)
        places = np.cumsum(repeats) - repeats
        escaped = np.empty(int(repeats.sum()), np.uint8)
        escaped[places] = data
        escaped[places[zeros] + 1] = 0xFF
        data = escaped
    ends = _Block(np.zeros((rows, 2), np.uint8))
    return _joined([_Block(data, lengths), ends], rows)


def _lists(array: pa.Array, equal_zeros: bool) -> _Block:
    starts, lengths, children = list_parts(array)
    chosen = pa.array(spread(starts, lengths))
    blocks = [_with_nulls(whole(c.take(chosen)), False, True, equal_zeros) for c in children]
    elements = _joined(blocks, len(chosen))
    if len(children) > 1 and lengths.max(initial=0) > 1:
        elements = _sorted(elements, np.repeat(np.arange(len(array)), lengths))
    sizes = elements.sizes(len(chosen))
    ends = np.cumsum(lengths)
    running = np.r_[0, np.cumsum(sizes)]
    whole_sizes = running[ends] - running[ends - lengths]
    return _joined(
        [
            _Block(elements.data.reshape(-1), whole_sizes),
            _Block(np.full((len(array), 1), _END, np.uint8)),
        ],
        len(array),
    )


def _sorted(entries: _Block, owners: np.ndarray) -> _Block:
    """Sort the entries of each map by their bytes."""
    rows = len(owners)
    order = argsort([owners, dense_ranks(_as_binary(entries, rows))], rows)
    sizes = entries.sizes(rows)
    starts = np.cumsum(sizes) - sizes
    data = entries.data.reshape(-1)[spread(starts[order], sizes[order])]
    return _Block(data, sizes[order])


def _cuts(keys: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give where rows begin (int64, one more than rows), their bytes, and where texts may end."""
    plain = keys.cast(pa.large_binary())
    offsets = np.frombuffer(plain.buffers()[1], np.int64)[plain.offset :][: len(plain) + 1]
    data = np.frombuffer(plain.buffers()[2] or b"", np.uint8)
    return offsets, data, np.flatnonzero((data[:-1] == 0) & (data[1:] == 0)) + 2


def parts(keys: pa.Array, types: Sequence[pa.DataType], places: Sequence[int]) -> pa.Array:
    """Cut out of encoded rows what `encoded` gives for some of their columns.

    Args:
        keys: BINARY, without NULLs, as `encoded` gives them, ascending.
        types: of the columns, up to the last of `places` at least.
        places: of the columns wanted, in the order wanted.
    """
    rows, (offsets, data, ends) = len(keys), _cuts(keys)
    found, at = [], offsets[:-1]
    for kind in types[: max(places, default=-1) + 1]:
        begun, at = at, _after(data, ends, at, kind)
        found.append(_Block(data[spread(begun, at - begun)], at - begun))
    return _as_binary(_joined([found[place] for place in places], rows), rows)


def parts_of_identified(
    keys: pa.Array, types: Sequence[pa.DataType], places: Sequence[int]
) -> pa.Array:
    """Give what `encoded` gives for some columns of rows, of what `identified` gives for all.

    Args:
        types: of all columns.
        places: of the columns wanted, in the order wanted.
    """
    rows, (offsets, data, ends) = len(keys), _cuts(keys)
    found, at = [], offsets[:-1]
    for kind in types:
        begun, at = at, _after_values(data, ends, at, kind)
        found.append((begun, at))
    null = np.zeros((rows, len(types)), bool)
    some = np.flatnonzero(at < offsets[1:])  # rows that say at their end which values are NULL
    null[some] = data[at[some][:, None] + np.arange(len(types))] > 0
    return _as_binary(_joined([_marked(data, *found[i], null[:, i]) for i in places], rows), rows)


def _marked(data: np.ndarray, begins: np.ndarray, ends: np.ndarray, null: np.ndarray) -> _Block:
    lengths = np.where(null, 0, ends - begins)
    marks = np.where(null, _NULL_FIRST, _VALID).astype(np.uint8).reshape(-1, 1)
    return _joined([_Block(marks), _Block(data[spread(begins, lengths)], lengths)], len(null))


def texts_of(keys: pa.Array) -> pa.Array:
    """Give the bytes of which `encoded` made keys: one BINARY column without NULLs."""
    offsets, data, _ = _cuts(keys)
    lengths = np.diff(offsets) - 3
    escaped = _as_binary(_Block(data[spread(offsets[:-1] + 1, lengths)], lengths), len(keys))
    return pc.replace_substring(escaped, b"\0\xff", b"\0")


def _after(data: np.ndarray, ends: np.ndarray, at: np.ndarray, kind: pa.DataType) -> np.ndarray:
    """Find where values end.

    Args:
        data: uint8, all bytes.
        ends: int64, the places after two zeros.
        at: int64, where each value begins.
    """
    found = at + 1
    valid = np.flatnonzero(data[at] == _VALID)
    found[valid] = _after_values(data, ends, found[valid], kind)
    return found


def _after_values(
    data: np.ndarray, ends: np.ndarray, at: np.ndarray, kind: pa.DataType
) -> np.ndarray:
    """Find where values end that no byte says of whether they are NULL; as of `_after`."""
    if _is_bytes(kind):
        return ends[np.searchsorted(ends, at + 2)]
    if pa.types.is_struct(kind):
        for place in range(kind.num_fields):
            at = _after(data, ends, at, kind.field(place).type)
        return at
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        return _after_lists(data, ends, at, kind)
    if pa.types.is_null(kind):
        return at
    return at + (1 if pa.types.is_boolean(kind) else kind.bit_width // 8)


def _after_lists(
    data: np.ndarray, ends: np.ndarray, at: np.ndarray, kind: pa.DataType
) -> np.ndarray:
    children = [kind.key_type, kind.item_type] if pa.types.is_map(kind) else [kind.value_type]
    at = at.copy()
    while len(more := np.flatnonzero(data[at] != _END)):
        for child in children:
            at[more] = _after(data, ends, at[more], child)
    return at + 1
