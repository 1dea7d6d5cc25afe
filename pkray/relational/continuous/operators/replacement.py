"""One row a key that is replaced: the changes between what it was and what it is."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import batch_of
from pkray.columns.keys import codes
from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.operator import Context
from pkray.relational.plan.fields import Fields
from pkray.schema.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE


def replaced(
    fields: Fields,
    context: Context,
    first: np.ndarray,
    keys: Sequence[pa.Array],
    before: tuple[Sequence[pa.Array], np.ndarray],
    after: tuple[Sequence[pa.Array], np.ndarray],
) -> Changes:
    """Give the changes of rows, one a key.

    A row that comes is +I, one that goes -D, one that differs -U and +U (or +U alone, if that is
    wanted); one that does not is left out unless state expires.

    Args:
        first: int64, the change that each key occurs in first: they come out in this order.
        keys: the first columns, which do not change.
        before: the other columns, and whether there was a row; what stands where there was none
            does not matter.
        after: the same afterwards.
    """
    (old, was), (new, there) = before, after
    both = was & there
    if context.expires:
        changed = both
    else:
        changed = both.copy()
        rows = np.flatnonzero(both)
        changed[rows] = differing(old, new, rows)
    gone = np.flatnonzero((was & ~there) | (changed & context.mode.before))
    come = np.flatnonzero(there & (~was | changed))
    count = len(was)
    slots = np.full(2 * (int(first.max(initial=-1)) + 1), -1)
    slots[2 * first[gone]] = gone
    slots[2 * first[come] + 1] = come + count
    sources = slots[slots >= 0]
    of_gone, of_come = (
        np.where(changed, UPDATE_BEFORE, DELETE),
        np.where(changed, UPDATE_AFTER, INSERT),
    )
    kinds = np.concatenate([of_gone, of_come]).astype(np.int8)[sources]
    numbers, places = pa.array(sources % count if count else sources), pa.array(sources)
    columns = [key.take(numbers) for key in keys]
    columns += [joined(a, b).take(places) for a, b in zip(old, new, strict=True)]
    return Changes(batch_of(columns, fields.arrow, len(kinds)), kinds)


def joined(first: pa.Array, second: pa.Array) -> pa.Array:
    """Put one array behind the other, in the second's type."""
    if first.type != second.type:
        first = first.cast(second.type)
    return pa.concat_arrays([first, second])


def differing(old: Sequence[pa.Array], new: Sequence[pa.Array], rows: np.ndarray) -> np.ndarray:
    """Whether rows of two lists of columns differ in any; NULLs are equal, NaNs too."""
    result = np.zeros(len(rows), bool)
    chosen = None if len(old) and len(rows) == len(old[0]) else pa.array(rows)
    for before, after in zip(old, new, strict=True):
        if chosen is not None:
            before, after = before.take(chosen), after.take(chosen)
        result |= _differ(before, after)
    return result


def _differ(before: pa.Array, after: pa.Array) -> np.ndarray:
    kind = after.type
    if before.type != kind:
        before = before.cast(kind)
    if pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_null(kind):
        numbers = codes([pa.concat_arrays([before, after])], 2 * len(after)).of_row
        result: np.ndarray = numbers[: len(after)] != numbers[len(after) :]
        return result
    unequal = pc.not_equal(before, after)
    if not unequal.null_count:
        return np.asarray(unequal)
    either_null = np.asarray(before.is_null()) != np.asarray(after.is_null())
    return np.asarray(pc.fill_null(unequal, False)) | either_null
