"""Changes: rows with their kinds, as they flow from operator to operator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import numpy as np
import pyarrow as pa

from pkray.columns.batches import batch_of
from pkray.columns.keys import codes
from pkray.errors import UnsupportedError
from pkray.relational.plan.fields import Fields
from pkray.schema.row_kind import INSERT, UPDATE_AFTER, UPDATE_BEFORE

SIGNS = np.array([1, -1, 1, -1], np.int64)
"""What a change of each kind does to the number of its row."""


class Order(StrEnum):
    """Tells how the changes of a key follow one another.

    ``KEPT``: as they happened. ``REPLACING``: too, but a row that is added may replace one that was
    there before, which nothing says, and of a row that is retracted the key alone is known.
    ``MOVING``: the new row may come before the old one goes;
    retractions have whole rows then.
    """

    KEPT = "kept"
    REPLACING = "replacing"
    MOVING = "moving"


@dataclass(frozen=True)
class Changes:
    """Rows of one node's columns, each added or retracted, in the order in which they came.

    Attributes:
        rows: a batch of the node's schema.
        kinds: int8, one a row: as `pkray.schema.row_kind` numbers them.
    """

    rows: pa.RecordBatch
    kinds: np.ndarray

    @classmethod
    def none(cls, fields: Fields) -> Changes:
        """Make changes without a row."""
        empty = [pa.array([], field.type) for field in fields.arrow]
        return cls(batch_of(empty, fields.arrow, 0), np.zeros(0, np.int8))

    @classmethod
    def of_kind(cls, rows: pa.RecordBatch, kind: int = INSERT) -> Changes:
        """Make changes of one kind.

        Args:
            rows: a batch of the node's schema.
            kind: as `pkray.schema.row_kind` numbers them.
        """
        return cls(rows, np.full(rows.num_rows, kind, np.int8))

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def nbytes(self) -> int:
        """Count the bytes that they take."""
        return int(self.rows.nbytes + self.kinds.nbytes)

    @cached_property
    def adds(self) -> np.ndarray:
        """Whether each row is added (+I, +U), not retracted."""
        return (self.kinds == INSERT) | (self.kinds == UPDATE_AFTER)

    @cached_property
    def signs(self) -> np.ndarray:
        """1 for each row that is added, -1 for one that is retracted; int64."""
        return SIGNS[self.kinds]

    @property
    def is_append(self) -> bool:
        """Whether every row is added."""
        return bool(self.adds.all())

    def column(self, name: str) -> pa.Array:
        """Give one column."""
        return self.rows.column(self.rows.schema.get_field_index(name))

    def columns(self, names: Sequence[str]) -> list[pa.Array]:
        """Give some columns."""
        return named(self.rows, names)

    def only(self, fields: Fields) -> Changes:
        """Give these columns alone."""
        if self.rows.schema.names == list(fields.names):
            return self
        return self.with_rows(batch_of(self.columns(fields.names), fields.arrow, len(self)))

    def take(self, numbers: np.ndarray) -> Changes:
        """Take changes by number, in the order given."""
        return Changes(take(self.rows, numbers), self.kinds[numbers])

    def where(self, mask: np.ndarray) -> Changes:
        """Keep the changes for which a mask is true."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def with_rows(self, rows: pa.RecordBatch) -> Changes:
        """Give other rows the same kinds."""
        return replace(self, rows=rows)


def take(rows: pa.RecordBatch, numbers: np.ndarray) -> pa.RecordBatch:
    """Take rows of a batch by number, also of one without columns."""
    if not rows.num_columns:
        return batch_of((), rows.schema, len(numbers))
    return rows.take(pa.array(numbers))


def taken(columns: Iterable[pa.Array], numbers: np.ndarray) -> list[pa.Array]:
    """Take rows of columns by number, in the order given."""
    chosen = pa.array(numbers)
    return [column.take(chosen) for column in columns]


def named(rows: pa.RecordBatch, names: Sequence[str]) -> list[pa.Array]:
    """Give some columns of rows."""
    return [rows.column(rows.schema.get_field_index(name)) for name in names]


def all_valid(columns: Sequence[pa.Array], count: int) -> np.ndarray:
    """Whether each of so many rows has no NULL in any of some columns."""
    valid = np.ones(count, bool)
    for column in columns:
        if column.null_count:
            valid &= np.asarray(column.is_valid())
    return valid


def concatenated(fields: Fields, parts: Sequence[Changes]) -> Changes:
    """Join changes, one after another."""
    filled = [each for each in parts if len(each)]
    if not filled:
        return Changes.none(fields)
    if len(filled) == 1:
        return filled[0]
    rows = concat_rows(fields.arrow, [each.rows for each in filled])
    return Changes(rows, np.concatenate([each.kinds for each in filled]))


def concat_rows(schema: pa.Schema, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Join batches of one schema to one."""
    batches = [batch_of(part.columns, schema, part.num_rows) for part in parts]
    table = pa.Table.from_batches(batches, schema)
    return batch_of(table.columns, schema, table.num_rows)


def interleaved(fields: Fields, parts: Sequence[tuple[Changes, np.ndarray]]) -> Changes:
    """Join changes in the order of numbers.

    Args:
        parts: changes, each with int64 numbers, one a row, by which all are put in order; of equal
            numbers the earlier part comes first.
    """
    joined = concatenated(fields, [changes for changes, _ in parts])
    filled = [numbers for changes, numbers in parts if len(changes)]
    places = np.concatenate([np.zeros(0, np.int64), *filled])
    order = np.argsort(places, kind="stable")
    return joined if bool((order[1:] > order[:-1]).all()) else joined.take(order)


def netted(changes: Changes, key: Sequence[str] | None, order: Order = Order.KEPT) -> Changes:
    """Leave the net change of each key, or of each row where there is no key.

    By key: the first row that is retracted and the last that is added, as -U and +U, one right
    after the other, where the last change of the key was; nothing where both are known to be equal.
    What comes alone is of the kind that the first change of its key has, what goes alone of the
    last one's.
    Without a key: as many equal rows as are left when additions and retractions cancel, of their
    kinds.

    Args:
        order: how the changes of a key follow one another.
    """
    if len(changes) < 2:
        return changes
    if key is None:
        return _netted_rows(changes)
    return _netted_keys(changes, key, order)


def _netted_rows(changes: Changes) -> Changes:
    if changes.is_append:
        return changes
    distinct = codes(changes.rows.columns, len(changes))
    if distinct.count == len(changes):
        return changes
    groups = distinct.of_row
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(groups[order]) != 0])
    sizes = np.diff(np.r_[starts, len(order)])
    net = np.repeat(np.add.reduceat(changes.signs[order], starts), sizes)
    same = np.where(net > 0, changes.adds[order], (net < 0) & ~changes.adds[order])
    # of the changes that go the way of the net, keep the last ones, as many as it says
    counted = np.cumsum(same[::-1])[::-1]
    after = np.repeat(np.r_[counted[starts[1:]], 0], sizes)
    kept = same & (counted - after <= np.abs(net))
    return changes.take(np.sort(order[kept]))


def _netted_keys(changes: Changes, key: Sequence[str], order: Order) -> Changes:
    distinct = codes(changes.columns(key), len(changes))
    if distinct.count == len(changes):
        return changes
    groups, count = distinct.of_row, distinct.count
    rows = np.arange(len(groups))
    adds = changes.adds
    first = np.full(count, -1)
    first[groups[::-1]] = rows[::-1]  # the first change of each key
    last = np.full(count, -1)
    last[groups] = rows
    if order is Order.MOVING and bool((adds[first] & ~adds[last]).any()):
        left = _netted_rows(changes)
        return _netted_keys(left.take(np.argsort(left.adds, kind="stable")), key, Order.KEPT)
    gone = last if order is Order.REPLACING else np.full(count, -1)
    before = np.where(adds[first], np.where(adds[last], -1, gone), first)
    after = np.where(adds[last], last, -1)
    whole = codes(changes.rows.columns, len(changes)).of_row
    both = (before >= 0) & (after >= 0)
    unchanged = both & (whole[before] == whole[after]) & (order is not Order.REPLACING)
    kept = np.flatnonzero(~unchanged)
    starts, ends, pair = first[kept], last[kept], both[kept]
    chosen = np.concatenate([before[kept], after[kept]])
    kinds = np.concatenate(
        [
            np.where(pair, UPDATE_BEFORE, changes.kinds[ends]),
            np.where(pair, UPDATE_AFTER, changes.kinds[starts]),
        ]
    )
    there = np.flatnonzero(chosen >= 0)
    places = np.concatenate([ends * 2, ends * 2 + 1])[there]
    numbers = there[np.argsort(places, kind="stable")]
    return Changes(take(changes.rows, chosen[numbers]), kinds[numbers].astype(np.int8))


def updates(changes: Changes, key: Sequence[str]) -> Changes:
    """Make -U and +U, one right after the other, of a row of a key that goes and one that comes.

    Those that are one right after the other already stay so.

    Args:
        key: which rows have only once, so that of net changes at most one goes and one comes; what
            changes more often stays as it is.
    """
    first = (changes.kinds == UPDATE_BEFORE) & np.append(changes.kinds[1:] == UPDATE_AFTER, False)
    loose = ~(first | np.append(False, first[:-1]))
    gone, come = np.flatnonzero(loose & ~changes.adds), np.flatnonzero(loose & changes.adds)
    if not len(gone) or not len(come):
        return changes
    groups = codes(changes.columns(key), len(changes)).of_row
    once = np.bincount(groups[gone], minlength=len(groups)) == 1
    once &= np.bincount(groups[come], minlength=len(groups)) == 1
    gone, come = gone[once[groups[gone]]], come[once[groups[come]]]
    gone = gone[np.argsort(groups[gone])]
    come = come[np.argsort(groups[come])]
    kinds = changes.kinds.copy()
    kinds[gone], kinds[come] = UPDATE_BEFORE, UPDATE_AFTER
    places = np.arange(len(groups)) * 2
    places[gone] = places[come] - 1
    return Changes(changes.rows, kinds).take(np.argsort(places, kind="stable"))


def taken_away(what: str, sources: Iterable[str]) -> UnsupportedError:
    """Make the error of rows that were taken away where rows are to be added alone.

    Args:
        what: counts on that.
        sources: names of what it reads.
    """
    names = tuple(dict.fromkeys(sources))
    return UnsupportedError(
        f"rows of {', '.join(names)} were taken away, by INSERT OVERWRITE or with a partition, and "
        f"{what} counts on rows being added alone, as they are with merge-engine = first-row: "
        "begin anew by materialize(…, replace=True), and have such changes followed from then on "
        "by the hint OPTIONS('streaming-read-overwrite' = 'true')",
        sources=names,
    )
