"""Compare the values of two columns of any type for equality."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.keys import value_codes
from pkray.lsm.keys.list_parts import list_parts

Flags = npt.NDArray[np.bool_]


def equal_values(one: pa.Array, other: pa.Array) -> Flags:
    """Compare two columns place by place: bool, one a place; null equals null and NaN equals NaN,
    also within ARRAY, MAP and ROW.

    The order of a MAP's entries does not matter.

    Args:
        one, other: of one type and length.
    """
    if not one.null_count and not other.null_count:
        return _equal(one, other)
    there, also = _valid(one), _valid(other)
    same = np.asarray(there == also)
    both = np.flatnonzero(there & also)
    if len(both):
        chosen = pa.array(both)
        same[both] = _equal(one.take(chosen), other.take(chosen))
    return same


def _equal(one: pa.Array, other: pa.Array) -> Flags:
    """Compare values none of which is null."""
    kind = one.type
    if pa.types.is_struct(kind):
        same = np.ones(len(one), np.bool_)
        for number in range(kind.num_fields):
            same &= equal_values(one.field(number), other.field(number))
        return same
    if pa.types.is_map(kind):
        return _equal_maps(one, other)
    if pa.types.is_list(kind):
        return _equal_lists(one, other, [(one.values, other.values)])
    same = pc.equal(one, other).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(kind):
        nan = pc.and_(pc.is_nan(one), pc.is_nan(other))
        same = same | nan.to_numpy(zero_copy_only=False)
    return np.asarray(same)


def _equal_maps(one: pa.Array, other: pa.Array) -> Flags:
    same = _equal_lists(one, other, [(one.keys, other.keys), (one.items, other.items)])
    alike = np.diff(_offsets(one)) == np.diff(_offsets(other))
    unsure = np.flatnonzero(alike & ~same)
    if len(unsure):
        chosen = pa.array(unsure)
        same[unsure] = _equal_entries(one.take(chosen), other.take(chosen))
    return same


def _equal_entries(one: pa.Array, other: pa.Array) -> Flags:
    """Compare maps with as many entries each, brought into one order."""
    lengths, mine = list_parts(one)
    theirs = list_parts(other)[1]
    keys = value_codes(pa.concat_arrays([mine.field("key"), theirs.field("key")]))
    my_keys, their_keys = np.split(keys, 2)
    place = np.repeat(np.arange(len(lengths)), lengths)
    my_order, their_order = np.lexsort((my_keys, place)), np.lexsort((their_keys, place))
    equal = my_keys[my_order] == their_keys[their_order]
    equal &= equal_values(
        mine.field("value").take(pa.array(my_order)),
        theirs.field("value").take(pa.array(their_order)),
    )
    return np.bincount(place, ~equal, len(lengths)) == 0


def _equal_lists(
    one: pa.Array, other: pa.Array, elements: list[tuple[pa.Array, pa.Array]]
) -> Flags:
    starts, also = _offsets(one), _offsets(other)
    lengths = np.diff(starts)
    same = lengths == np.diff(also)
    alike = np.flatnonzero(same)
    total = int(lengths[alike].sum())
    if not total:
        return same
    ends = np.cumsum(lengths[alike])
    within = np.arange(total) - np.repeat(ends - lengths[alike], lengths[alike])
    left = pa.array(np.repeat(starts[:-1][alike], lengths[alike]) + within)
    right = pa.array(np.repeat(also[:-1][alike], lengths[alike]) + within)
    differs = np.zeros(total, np.bool_)
    for mine, theirs in elements:
        differs |= ~equal_values(mine.take(left), theirs.take(right))
    before = np.concatenate([[0], np.cumsum(differs)])
    same[alike] = before[ends] == before[ends - lengths[alike]]
    return same


def _offsets(lists: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(lists.offsets.to_numpy(), np.int64)


def _valid(array: pa.Array) -> Flags:
    return np.array(array.is_valid().to_numpy(zero_copy_only=False))
