"""Keys as numbers: which rows are of one group, and which comes before which.

- **comparable**: a column as one that Arrow's hash tables compare as plans mean it: floats by their
  bits, with all NaNs alike; nested values by numbers that are equal where the values are. The
  order of a map's entries does not count.
- **codes**: a number a row, from 0, the same for rows with equal keys; NULLs are equal.
- **ranks**: integers a row that sort as a column does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import gathered, spread, whole
from pkray.columns.dense import grouped_densely
from pkray.columns.sort_key import SortKey
from pkray.errors import UnsupportedError

Column: TypeAlias = pa.Array | pa.ChunkedArray
Aggregation: TypeAlias = tuple[str | list[str], str]
MOST_PAIRS = 1 << 16
"""Pairs of values for which a table of all is faster than one of those that occur."""
WIDEST = 1 << 62
"""Numbers packed into one stay below this, so that sums of them fit in 64 bits."""


def comparable(column: Column) -> Column:
    """Give a column whose values Arrow's hash tables find equal where plans do."""
    kind = column.type
    if pa.types.is_floating(kind):
        return _one_nan(column)
    if pa.types.is_nested(kind):
        return _numbers(whole(column))
    return column


def _one_nan(column: Column) -> Column:
    nans = pc.is_nan(column)
    if not pc.any(nans).as_py():
        return column
    return pc.if_else(nans, pa.scalar(float("nan"), column.type), column)


def _numbers(array: pa.Array) -> pa.Array:
    """Number the values of a nested column; NULL stays NULL."""
    if pa.types.is_struct(array.type):
        parts = [array.field(i) for i in range(array.type.num_fields)]
        numbers = codes(parts, len(array)).of_row
        return pa.array(numbers, mask=np.asarray(array.is_null()))
    starts, lengths, children = list_parts(array)
    inside = codes(children, len(children[0])).of_row
    rows = inside[spread(starts, lengths)]
    if len(children) > 1:
        rows = rows[argsort([np.repeat(np.arange(len(array)), lengths), rows], len(rows))]
    offsets = np.concatenate(([0], np.cumsum(lengths * 8)))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(rows.astype(np.int64))]
    packed = pa.Array.from_buffers(pa.large_binary(), len(array), buffers)
    numbers = packed.dictionary_encode().indices
    return pc.if_else(array.is_null(), pa.scalar(None, numbers.type), numbers)


def one_zero(array: pa.Array) -> pa.Array:
    """Make -0.0 the 0.0 that it is equal to, also inside lists, maps and structs."""
    kind = array.type
    if pa.types.is_floating(kind):
        return pc.add(array, pa.scalar(0, kind))
    if pa.types.is_struct(kind):
        parts = [one_zero(array.field(i)) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if not pa.types.is_nested(kind):
        return array
    if pa.types.is_map(kind):
        parts = [one_zero(array.keys), one_zero(array.items)]
        inside = pa.StructArray.from_arrays(parts, fields=[kind.key_field, kind.item_field])
    else:
        inside = one_zero(array.values)
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(kind, len(array), buffers, -1, array.offset, [inside])


def list_parts(array: pa.Array) -> tuple[np.ndarray, np.ndarray, list[pa.Array]]:
    """Take a list or map column apart.

    Returns:
        int64 starts and lengths, one a row (NULLs are empty), and the values (of a map the keys and
        the values) that they count in.
    """
    is_map = pa.types.is_map(array.type)
    children = [array.keys, array.items] if is_map else [array.values]
    offsets = np.asarray(array.offsets).astype(np.int64)
    lengths = np.diff(offsets)
    if array.null_count:
        lengths = np.where(np.asarray(array.is_null()), 0, lengths)
    return offsets[:-1], lengths, children


@dataclass(frozen=True)
class Codes:
    """Groups as numbers.

    Attributes:
        of_row: int64, one a row, 0 … count - 1.
        count: how many groups.
    """

    of_row: np.ndarray
    count: int

    def first_rows(self) -> np.ndarray:
        """Give the number of the first row of each group."""
        first = np.empty(self.count, np.int64)
        rows = np.arange(len(self.of_row) - 1, -1, -1)
        first[self.of_row[rows]] = rows
        return first


def codes(columns: Sequence[Column], rows: int, *, in_order: bool = True) -> Codes:
    """Number the groups of equal rows; without columns all rows are one group.

    Args:
        in_order: whether groups are numbered as they first occur; in any order it is faster.
    """
    result = np.zeros(rows, np.int64)
    count = min(rows, 1)
    for column in columns:
        numbers, distinct = _codes(column)
        if count <= 1:
            result, count = numbers, distinct
        elif not in_order and count * distinct <= MOST_PAIRS:
            result, count = _paired(result * distinct + numbers, count * distinct)
        else:
            packed = pa.array(result * distinct + numbers).dictionary_encode()
            result, count = np.asarray(packed.indices).astype(np.int64), len(packed.dictionary)
    return Codes(result, count)


def value_codes(column: Column) -> np.ndarray:
    """Number the values of a column: int64, one a row, the same for equal values and for NULLs."""
    return _codes(column)[0]


def _paired(pairs: np.ndarray, possible: int) -> tuple[np.ndarray, int]:
    """Number those of the possible pairs that occur."""
    occurs = np.zeros(possible, np.bool_)
    occurs[pairs] = True
    numbers = np.cumsum(occurs) - 1
    return numbers[pairs], int(numbers[-1]) + 1


def _codes(column: Column) -> tuple[np.ndarray, int]:
    encoded = whole(comparable(whole(column))).dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices).astype(np.int64), len(encoded.dictionary)


def ranks(column: Column, key: SortKey) -> list[np.ndarray]:
    """Give int64 arrays that sort, one after the other and upwards, as the column does.

    0.0 and -0.0 are equal, NaN is greatest.
    """
    array = whole(column)
    if pa.types.is_struct(array.type):
        parts = [array.field(i) for i in range(array.type.num_fields)]
        inside = SortKey("", key.descending, nulls_first=not key.descending)  # as NULLs of lists
        inner = [rank for part in parts for rank in ranks(part, inside)]
    else:
        inner = [_ascending(array)]
        if key.descending:
            inner = [~rank for rank in inner]
    if not array.null_count:
        return inner
    null = np.asarray(array.is_null())
    placed = ~null if key.nulls_first else null
    return [placed.astype(np.int64), *(np.where(null, 0, rank) for rank in inner)]


def _ascending(array: pa.Array) -> np.ndarray:
    kind = array.type
    if pa.types.is_floating(kind):
        return ordered_bits(array)
    if pa.types.is_boolean(kind):
        return np.asarray(pc.fill_null(array.cast(pa.int8()), 0)).astype(np.int64)
    if pa.types.is_integer(kind):
        return np.asarray(pc.fill_null(array, 0)).astype(np.int64)
    if pa.types.is_temporal(kind):
        plain = pa.int32() if kind.bit_width == 32 else pa.int64()
        return np.asarray(pc.fill_null(array.view(plain), 0)).astype(np.int64)
    if pa.types.is_map(kind):
        raise UnsupportedError(f"values of {kind} have no order: order by map_keys, for example")
    return _list_ranks(array) if pa.types.is_list(kind) else _dense(array)


def _list_ranks(array: pa.Array) -> np.ndarray:
    """Number lists in their order: that of their first elements that differ, NULL the least."""
    starts, lengths, children = list_parts(array)
    numbers = dense_ranks(children[0])[spread(starts, lengths)]
    offsets = np.concatenate(([0], np.cumsum(lengths * 8)))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(numbers.astype(">i8").tobytes())]
    return _dense(pa.Array.from_buffers(pa.large_binary(), len(array), buffers))


def dense_ranks(array: pa.Array, *, descending: bool = False) -> np.ndarray:
    """Give one int64 number a row, from 1, that sorts as a column does; NULL is the least."""
    parts = ranks(array, SortKey("", descending, nulls_first=not descending))
    order = argsort(parts, len(array))
    result = np.empty(len(array), np.int64)
    result[order] = np.cumsum(begins([part[order] for part in parts], len(array)))
    return result


def _dense(array: pa.Array) -> np.ndarray:
    """Number distinct values in their order."""
    encoded = array.dictionary_encode()
    places = np.empty(len(encoded.dictionary), np.int64)
    places[np.asarray(pc.sort_indices(encoded.dictionary))] = np.arange(len(encoded.dictionary))
    indices = np.asarray(pc.fill_null(encoded.indices, 0))
    return places[indices] if len(places) else np.zeros(len(array), np.int64)


def ordered_bits(array: pa.Array) -> np.ndarray:
    """Give int64 numbers that sort as floats do: 0.0 and -0.0 equal, NaN greatest, NULL 0."""
    values = np.asarray(pc.fill_null(array.cast(pa.float64()), 0.0)) + 0.0
    bits = values.view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    return np.where(np.isnan(values), np.iinfo(np.int64).max, ordered)


def packed(columns: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Join neighbouring int64 columns into as few as hold the same order."""
    result: list[np.ndarray] = []
    width = WIDEST
    for column in columns:
        low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        span = high - low + 1
        if result and span * width < WIDEST:
            result[-1] = result[-1] * span + (column - low)
            width *= span
        elif span < WIDEST:
            result.append(column - low)
            width = span
        else:
            result.append(column)
            width = WIDEST
    return result


def argsort(columns: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """Give the row numbers in the order of int64 columns, the first the coarsest; stable."""
    keys = packed(columns)
    if not keys:
        return np.arange(rows)
    if len(keys) == 1:
        return np.asarray(pc.array_sort_indices(pa.array(keys[0]))).astype(np.int64)
    return np.lexsort(keys[::-1])


def argsort_numbers(numbers: np.ndarray) -> np.ndarray:
    """Give the order of numbers from 0, stable: by 16 bits at a time, which sort fastest."""
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    greatest = int(numbers.max(initial=0))
    for shift in range(16, greatest.bit_length(), 16):
        part = (numbers >> shift).astype(np.uint16)
        order = order[np.argsort(part[order], kind="stable")]
    return order


def sort_rows(table: pa.Table, order_by: Sequence[SortKey]) -> np.ndarray:
    """Give the row numbers in an order; equal rows keep theirs."""
    columns = [rank for key in order_by for rank in ranks(table[key.column], key)]
    return argsort(columns, table.num_rows)


def begins(columns: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """Whether each row differs from the one before; true of the first."""
    result = np.zeros(rows, bool)
    result[:1] = True
    for column in columns:
        result[1:] |= column[1:] != column[:-1]
    return result


def grouped(
    table: pa.Table,
    keys: Sequence[str],
    aggregations: Sequence[Aggregation],
    *,
    threads: bool = True,
) -> pa.Table:
    """Aggregate by keys with Arrow's functions; first come the keys, then the aggregates in order.

    Equal keys are as `comparable` says; without keys there is one group if there is a row.
    """
    names = list(keys)
    if not names:
        table = table.append_column("$one", pa.repeat(pa.scalar(0, pa.int8()), table.num_rows))
        found = table.group_by("$one", use_threads=threads).aggregate(list(aggregations))
        return found.drop_columns("$one")
    if any(pa.types.is_nested(table.schema.field(name).type) for name in names):
        return _grouped_by_codes(table, names, aggregations)
    for name in names:
        if pa.types.is_floating(table.schema.field(name).type):
            place = table.column_names.index(name)
            table = table.set_column(place, table.field(name), comparable(table[name]))
    if len(names) == 1:
        dense = grouped_densely(table, names[0], list(aggregations))
        if dense is not None:
            return dense
    return table.group_by(names, use_threads=threads).aggregate(list(aggregations))


def _grouped_by_codes(
    table: pa.Table, keys: list[str], aggregations: Sequence[Aggregation]
) -> pa.Table:
    numbers = codes([table[name] for name in keys], table.num_rows)
    first = gathered(table.select(keys), numbers.first_rows())
    coded = table.append_column("$code", pa.array(numbers.of_row))
    found = coded.group_by("$code").aggregate(list(aggregations))
    back = gathered(first, whole(found["$code"]))
    return pa.Table.from_arrays(
        [*back.columns, *found.columns[1:]], [*keys, *found.column_names[1:]]
    )
