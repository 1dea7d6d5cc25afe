"""Find the pairs of rows of two sides whose keys are equal and that meet a condition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from pkray.columns import batches
from pkray.relational.local.engine import BATCH_ROWS, Step
from pkray.relational.local.key_index import KeyIndex, alike, cut_ranges
from pkray.relational.local.rows import condition_of
from pkray.relational.plan.expressions import TRUE, Expression
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.nodes import IntervalJoin, Join, TemporalJoin

BLOCK_ROWS = 1 << 18
"""Pairs that are made at once where there are no keys."""

JOINED_ROWS = 1 << 20
"""Most rows that come out at once."""

JOINED_BYTES = 64 << 20
"""Bytes that come out at once, about, or fewer if an operator may hold less."""

LEAST_ROWS = 1 << 10
"""Rows that come out at once, however wide they are."""

LEFT, RIGHT = "$left", "$right"
Pairs: TypeAlias = Iterator[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Sides:
    """Pairs rows of two sides: equal keys and a condition on the joined row.

    Attributes:
        left, right: the columns of each side, with different names.
        null_safe: for each key, whether NULL equals NULL.
    """

    left: Fields
    right: Fields
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    null_safe: tuple[bool, ...]
    condition: Expression

    @staticmethod
    def of(node: Join | IntervalJoin | TemporalJoin) -> Sides:
        """Take a join's sides; the right one under the names of the result."""
        renamed = node.names_given
        return Sides(
            node.left.fields,
            node.right_fields,
            node.left_keys,
            tuple(renamed[name] for name in node.right_keys),
            (isinstance(node, Join) and node.null_safe) or (False,) * len(node.left_keys),
            node.condition,
        )

    def turned(self) -> Sides:
        """Change the sides over."""
        return replace(
            self,
            left=self.right,
            right=self.left,
            left_keys=self.right_keys,
            right_keys=self.left_keys,
        )

    def but_first_key(self) -> Sides:
        """Leave the first key out."""
        return replace(
            self,
            left_keys=self.left_keys[1:],
            right_keys=self.right_keys[1:],
            null_safe=self.null_safe[1:],
        )

    def check(self) -> Step | None:
        """Make the step that keeps joined rows that meet the condition."""
        if self.condition == TRUE:
            return None
        return condition_of(self.condition, (self.left + self.right).only(self.reads()))

    def reads(self) -> list[str]:
        """List the columns that the condition reads."""
        names = self.condition.columns()
        return [name for name in (*self.left.names, *self.right.names) if name in names]


def checked_pairs(
    sides: Sides, left: pa.Table, right: pa.Table, rows: np.ndarray, others: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Keep the pairs that meet the condition."""
    check, names = sides.check(), sides.reads()
    if check is None:
        return [(rows, others)]
    kept = []
    for start in range(0, len(rows), BATCH_ROWS):
        end = start + BATCH_ROWS
        batch = check(with_columns(left, right, rows[start:end], others[start:end], names))
        kept.append((np.asarray(batch[LEFT]), np.asarray(batch[RIGHT])))
    return kept


def pairs_of(sides: Sides, left: pa.Table, right: pa.Table, most: int = BLOCK_ROWS) -> Pairs:
    """Find the pairs of rows, as int64 numbers of rows of each side; the left ones ascend.

    Args:
        most: pairs that are looked at at once, about.
    """
    if sides.left_keys:
        yield from keyed_pairs(sides, left, right, ranges_of(sides, left, right), most)
        return
    check, names = sides.check(), sides.reads()
    for batch in _blocks(left, right, names, most):
        kept = batch if check is None else check(batch)
        yield np.asarray(kept[LEFT]), np.asarray(kept[RIGHT])


@dataclass(frozen=True)
class Ranges:
    """The right rows that left rows pair with, before the condition.

    Attributes:
        order: int64 numbers of right rows.
        starts, lengths: int64, one a left row: a range of `order`.
    """

    order: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray


def index_of(sides: Sides, right: pa.Table) -> KeyIndex | None:
    """Index right rows by their keys; None where some are nested, and known beside left ones."""
    if any(sides.right[name].type.is_nested for name in sides.right_keys):
        return None
    return KeyIndex.of([right[name] for name in sides.right_keys], sides.null_safe)


def ranges_of(
    sides: Sides, left: pa.Table, right: pa.Table, index: KeyIndex | None = None
) -> Ranges:
    """Find the right rows of each left row's keys."""
    index = index or index_of(sides, right)
    ours = [left[name] for name in sides.left_keys]
    if index is None:
        theirs = [right[name] for name in sides.right_keys]
        for place, (key, other) in enumerate(zip(ours, theirs, strict=True)):
            if pa.types.is_nested(key.type):
                ours[place], theirs[place] = alike(key, other)
        index = KeyIndex.of(theirs, sides.null_safe)
    return Ranges(index.order, *index.ranges(ours))


def most_pairs(left: pa.Table, right: pa.Table, most: int) -> int:
    """Say how many pairs are made at once, of about so many bytes."""
    each = sum(side.nbytes // max(side.num_rows, 1) for side in (left, right))
    fit = min(most, JOINED_BYTES) // max(each, 1)
    return min(max(fit, LEAST_ROWS), JOINED_ROWS)


def keyed_pairs(sides: Sides, left: pa.Table, right: pa.Table, ranges: Ranges, most: int) -> Pairs:
    """Give the pairs that meet the condition, at most so many at once."""
    for rows, places in cut_ranges(ranges.starts, ranges.lengths, most):
        pairs = checked_pairs(sides, left, right, rows, ranges.order[places])
        yield (
            np.concatenate([ours for ours, _ in pairs]),
            np.concatenate([theirs for _, theirs in pairs]),
        )


def _blocks(
    left: pa.Table, right: pa.Table, names: list[str], most: int
) -> Iterator[pa.RecordBatch]:
    """Pair all rows, block by block."""
    if not left.num_rows or not right.num_rows:
        return
    wide = min(right.num_rows, most)
    high = max(most // wide, 1)
    for top in range(0, left.num_rows, high):
        for start in range(0, right.num_rows, wide):
            rows = np.arange(top, min(top + high, left.num_rows))
            others = np.arange(start, min(start + wide, right.num_rows))
            yield with_columns(
                left, right, np.repeat(rows, len(others)), np.tile(others, len(rows)), names
            )


def with_columns(
    left: pa.Table, right: pa.Table, rows: np.ndarray, others: np.ndarray, names: list[str]
) -> pa.RecordBatch:
    """Put the columns that a condition reads before pairs."""
    taken = {LEFT: pa.array(rows), RIGHT: pa.array(others)}
    columns = [
        left[name].take(taken[LEFT])
        if name in left.column_names
        else right[name].take(taken[RIGHT])
        for name in names
    ]
    arrays = [batches.whole(column) for column in columns] + list(taken.values())
    return pa.RecordBatch.from_arrays(arrays, names=[*names, *taken])
