"""Aggregation of overlapping windows, each row into one slice."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import batch_of
from pkray.columns.keys import codes
from pkray.relational.continuous.changes import Changes, taken
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.aggregates.accumulators import Numbers, integers
from pkray.relational.continuous.operators.aggregates.groups import Groups
from pkray.relational.continuous.operators.windows.event_time import MILLI, as_times, micros
from pkray.relational.continuous.operators.windows.open_groups import ROWS, OpenGroups
from pkray.relational.continuous.state.encoding import identified
from pkray.relational.plan.nodes import Aggregate, Slices, Window, WindowKind

MOST_CELLS = 1 << 21
"""Numbers of slices and keys that are added up at a time."""
WASTE = 8
"""Says of how many keys a slice holds one at least; below, windows are made row by row."""


@dataclass(frozen=True)
class Cut:
    """Cuts windows into slices; all in microseconds.

    Attributes:
        slice: the size of a slice.
        offset: of windows, and so of slices.
    """

    kind: WindowKind
    size: int
    step: int
    slice: int
    offset: int

    @classmethod
    def from_nodes(cls, slices: Slices, window: Window) -> Self:
        return cls(slices.kind, slices.size, slices.step, window.size, window.offset)

    @property
    def count(self) -> int:
        """Slices of a window, of the longest one if they grow."""
        return self.size // self.slice

    def first_ends(self, ends: np.ndarray) -> np.ndarray:
        """Give the end of the first window that has each slice, by the slices' ends."""
        if self.kind is WindowKind.CUMULATE:
            return ends
        short = ends - self.offset - self.size
        return ends + (-short) % self.step

    def last_ends(self, ends: np.ndarray) -> np.ndarray:
        """Give the end of the last window that has each slice."""
        starts = ends - self.slice
        every = self.size if self.kind is WindowKind.CUMULATE else self.step
        return starts - (starts - self.offset) % every + self.size

    def starts(self, ends: np.ndarray) -> np.ndarray:
        """Give the start of windows by their ends."""
        if self.kind is WindowKind.CUMULATE:
            last = ends - self.slice
            return last - (last - self.offset) % self.size
        return ends - self.size

    def windows(
        self, ends: np.ndarray, after: int | None, until: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """List the windows of slices that end after one moment, and until another.

        Args:
            ends: of the slices.
            after: None: before all.

        Returns:
            the number of a slice, and the end of a window that has it.
        """
        first, last = self.first_ends(ends), np.minimum(self.last_ends(ends), until)
        if after is not None:
            first = first + np.maximum(-(-(after + 1 - first) // self.step), 0) * self.step
        counts = np.maximum((last - first) // self.step + 1, 0)
        rows = np.repeat(np.arange(len(ends)), counts)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, first[rows] + place * self.step

    def numbers(self, ends: np.ndarray) -> np.ndarray:
        """Number slices in the order of time."""
        return (ends - self.slice - self.offset) // self.slice


@dataclass(frozen=True)
class Together:
    """Holds the sums of slices put together, a row a window and key.

    Attributes:
        ends: of the windows, ascending.
        keys: int64, numbers.
        values: an array a part.
    """

    ends: np.ndarray
    keys: np.ndarray
    values: list[np.ndarray]


def put_together(
    cut: Cut,
    ends: np.ndarray,
    keys: np.ndarray,
    parts: Sequence[Numbers],
    after: int | None,
    until: int,
) -> Together:
    """Merge slices into the windows that end after one moment, and until another.

    Args:
        ends: of the slices, one a row.
        keys: int64, one a row, from 0; a slice has a key once.
        parts: the numbers to merge, an array each; the first counts rows.
    """
    _, due = cut.windows(np.unique(ends), after, until)
    due = np.unique(due)
    if not len(due):
        return Together(due, due, [each.values[:0] for each in parts])
    needed = cut.last_ends(ends) >= due[0]
    needed &= ends <= due[-1]
    rows = np.flatnonzero(needed)
    ends, keys = ends[rows], keys[rows]
    parts = [each.take(rows) for each in parts]
    numbers = cut.numbers(ends)
    first = int(numbers.min()) // cut.count * cut.count
    last = int(cut.numbers(due[-1:])[0])
    slices = -(-(last + 1 - first) // cut.count) * cut.count
    count = int(keys.max()) + 1
    expanded = len(rows) * min(len(due), cut.count)
    if slices * count > WASTE * expanded:
        return _row_by_row(cut, ends, keys, parts, after, until)
    width = max(MOST_CELLS // slices, 1)
    made = [
        _densely(cut, numbers - first, keys, parts, due, slices, slice(low, low + width), first)
        for low in range(0, count, width)
    ]
    if len(made) == 1:
        return made[0]
    joined = [np.concatenate(each) for each in zip(*(m.values for m in made), strict=True)]
    every = np.concatenate([each.ends for each in made])
    order = np.argsort(every, kind="stable")
    which = np.concatenate([each.keys for each in made])
    return Together(every[order], which[order], [each[order] for each in joined])


def _row_by_row(
    cut: Cut,
    ends: np.ndarray,
    keys: np.ndarray,
    parts: Sequence[Numbers],
    after: int | None,
    until: int,
) -> Together:
    in_time = np.argsort(ends, kind="stable")
    rows, windows = cut.windows(ends[in_time], after, until)
    rows = in_time[rows]
    order = np.lexsort([keys[rows], windows])
    rows, windows = rows[order], windows[order]
    owners = keys[rows]
    begins = np.flatnonzero(
        np.r_[True, (windows[1:] != windows[:-1]) | (owners[1:] != owners[:-1])]
    )
    values = [each.merge.reduceat(each.values[rows], begins) for each in parts]
    return Together(windows[begins], owners[begins], values)


def _densely(
    cut: Cut,
    numbers: np.ndarray,
    keys: np.ndarray,
    parts: Sequence[Numbers],
    due: np.ndarray,
    slices: int,
    some: slice,
    first: int,
) -> Together:
    """Merge by way of arrays with a place for each slice and key.

    The slices are in blocks as long as a window. What is merged from a block's begin, and to its
    end, gives each window with one more step: it is the end of one block and the begin of the next.
    """
    rows = np.flatnonzero((keys >= some.start) & (keys < some.stop))
    width = int(keys[rows].max(initial=some.start)) + 1 - some.start
    ends = cut.numbers(due) - first
    there: tuple[np.ndarray, ...] | None = None
    values = []
    for each in parts:
        cells = np.full((slices, width), each.identity, each.values.dtype)
        cells[numbers[rows], keys[rows] - some.start] = each.values[rows]
        blocks = cells.reshape(-1, cut.count, width)
        forwards = each.merge.accumulate(blocks, axis=1).reshape(slices, width)
        merged = forwards[ends]
        if cut.kind is WindowKind.HOP:
            backwards = each.merge.accumulate(blocks[:, ::-1], axis=1)[:, ::-1]
            begins = ends - cut.count + 1
            parted = np.flatnonzero(begins % cut.count)
            before = backwards.reshape(slices, width)[np.maximum(begins[parted], 0)]
            before[begins[parted] < 0] = each.identity
            merged[parted] = each.merge(before, merged[parted])
        if there is None:
            there = np.nonzero(merged > 0)
        values.append(merged[there])
    assert there is not None
    return Together(due[there[0]], there[1] + some.start, values)


@operates(Aggregate, when=lambda node: node.slices is not None)
class SliceAggregate(Operator):
    """Keeps the groups of slices, and gives windows, put together of them, when they are over.

    A row is late for those of its windows that are over, and counts in the others. What is kept of
    slices that get no rows but such ones is held in memory as well, as it is read for each window.
    """

    def __init__(self, node: Aggregate, context: Context) -> None:
        super().__init__(node, context)
        bounds = node.input.window_bounds()
        assert bounds is not None
        assert node.slices is not None
        self._bounds = bounds
        self._cut = Cut.from_nodes(node.slices, bounds.window)
        self._open = OpenGroups(node, context, bounds, self._cut.last_ends)
        self._listed: pa.Table | None = None
        self._rows: pa.Table | None = None
        self._rows_until: int | None = None

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        passed = None if epoch.watermark is None else self._open.until(epoch.watermark)
        changes = self._in_time(inputs[0], passed, epoch)
        if len(changes):
            self._open.take(changes, epoch)
            if self._rows_until is not None and self._is_among(self._rows_until, changes):
                self._rows = self._rows_until = None
        if not epoch.ends:
            return Changes.none(self.node.fields)
        until = self._open.until(epoch.next_watermark)
        made = self._fired(passed, until)
        self._forget(until, epoch)
        return made

    def _is_among(self, until: int, changes: Changes) -> bool:
        """Whether a change is of a slice that ends until then."""
        return bool((micros(changes.column(self._open.end)) <= until).any())

    def _in_time(self, changes: Changes, passed: int | None, epoch: Epoch) -> Changes:
        if not len(changes) or passed is None:
            return changes
        ends = micros(changes.column(self._open.end))
        late = np.flatnonzero(ends <= passed)
        if not len(late):
            return changes
        rows, windows = self._cut.windows(ends[late], None, passed)
        missed = changes.take(late[rows])
        missed = missed.with_rows(self._with_bounds(missed.rows, windows))
        self.context.late(0, missed, epoch)
        kept = np.ones(len(changes), bool)
        kept[late] = self._cut.last_ends(ends[late]) > passed
        return changes.where(kept)

    def _with_bounds(self, rows: pa.RecordBatch, ends: np.ndarray) -> pa.RecordBatch:
        """Put the bounds of windows in the place of those of slices."""
        columns = [
            self._bound(field.name, ends, field.type) or column
            for field, column in zip(rows.schema, rows.columns, strict=True)
        ]
        return batch_of(columns, rows.schema, rows.num_rows)

    def _bound(self, name: str, ends: np.ndarray, kind: pa.DataType) -> pa.Array | None:
        if name in self._bounds.start:
            return as_times(self._cut.starts(ends), kind)
        if name in self._bounds.end:
            return as_times(ends, kind)
        return as_times(ends - MILLI, kind) if name in self._bounds.time else None

    def _fired(self, passed: int | None, until: int) -> Changes:
        if self._listed is None:
            self._listed = self._open.listed()
        self._listed = pa.concat_tables([self._listed, self._open.fresh()])
        if not len(self._listed):
            return Changes.none(self.node.fields)
        rows = self._complete(until)
        if not len(rows):
            return Changes.none(self.node.fields)
        names = [name for name in self._open.names if name not in self._bounds.columns]
        numbers = codes([rows[name] for name in names], len(rows))
        first = numbers.first_rows()
        keys = [rows[name].take(pa.array(first)).combine_chunks() for name in names]
        order = np.asarray(pc.sort_indices(identified(keys, numbers.count)))
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        kept = [column.combine_chunks() for column in rows.columns[len(self.node.keys) + 2 :]]
        parts, restored = self._open.fold.mergeable(kept)
        together = put_together(
            self._cut,
            micros(rows[self._open.end].combine_chunks()),
            places[numbers.of_row],
            [Numbers(integers(rows[ROWS].combine_chunks())), *parts],
            passed,
            until,
        )
        if not len(together.ends):
            return Changes.none(self.node.fields)
        chosen = dict(zip(names, taken(keys, order[together.keys]), strict=True))
        return self._given(together, chosen, restored(together.values[1:]))

    def _given(
        self, together: Together, keys: dict[str, pa.Array], kept: Sequence[pa.Array]
    ) -> Changes:
        fields = self.node.input.fields
        columns = []
        for name in self.node.keys:
            bound = self._bound(name, together.ends, fields[name].type.arrow)
            columns.append(keys[name] if bound is None else bound)
        groups = Groups.of_keys(Changes.none(fields), self.node.keys, columns)
        columns += self._open.fold.results(kept, together.values[0], groups)
        return Changes.of_kind(batch_of(columns, self.node.fields.arrow, len(together.ends)))

    def _complete(self, until: int) -> pa.Table:
        """Give what is kept of slices that have ended."""
        assert self._listed is not None
        ends = micros(self._listed[self._open.end].combine_chunks())
        mask = ends <= until
        if self._rows_until is not None:
            mask &= ends > self._rows_until
        _, found = self._open.get(self._listed.filter(pa.array(mask)))
        rows = pa.Table.from_batches([found.rows])
        self._rows = rows if self._rows is None else pa.concat_tables([self._rows, rows])
        self._rows_until = until
        return self._rows

    def _forget(self, until: int, epoch: Epoch) -> None:
        """Forget slices whose last window is over."""
        gone = self._open.ended(until, epoch)
        if len(gone):
            self._open.forget(self._open.groups(gone))
        self._listed = self._still_open(self._listed, until)
        self._rows = self._still_open(self._rows, until)

    def _still_open(self, rows: pa.Table | None, until: int) -> pa.Table | None:
        if rows is None or not len(rows):
            return rows
        last = self._cut.last_ends(micros(rows[self._open.end].combine_chunks()))
        return rows.filter(pa.array(last > until)).combine_chunks()
