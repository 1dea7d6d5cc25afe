"""Joins, top-n and deduplication within windows: each is computed once, when it is over."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pkray.columns.keys import codes
from pkray.relational.continuous.changes import Changes, concatenated, take
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.aggregates.groups import counted
from pkray.relational.continuous.operators.windows.event_time import micros, on_time, tick
from pkray.relational.continuous.operators.windows.waiting import Due, DuePages, Waiting
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.local.engine import run
from pkray.relational.local.memory import machine_memory
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.nodes import Deduplicate, Exchange, Join, Node, Scan, TopN
from pkray.relational.plan.source import Source, Watermark

COPIES = "$copies"
"""The column that says how many equal rows of a window there are."""
OF_MACHINE = 8
"""A bounded run holds this part of the machine's memory; what is beyond goes to the disk."""


class HeldWindows:
    """Keeps the rows of one input of an operator until their windows are over.

    Args:
        fields: the input's columns.
        end: which of them is the window's end.
        keys: which of them bring rows together, whatever their windows.
        index: of the input.
    """

    def __init__(
        self, context: Context, fields: Fields, end: str, keys: Sequence[str], index: int
    ) -> None:
        self._context = context
        self._index = index
        self._end = end
        self._keys = keys
        self._tick = tick(fields[end].type)
        self._appends = context.inputs[index].is_append
        columns = fields.arrow
        if not self._appends:
            columns = columns.append(pa.field(COPIES, pa.int64()))
        self._waiting = Waiting(context, columns, index=index, keys=keys)

    def put(self, changes: Changes, epoch: Epoch) -> None:
        """Add and take back rows of open windows; those of windows that are over are left out."""
        if not len(changes):
            return
        ends = micros(changes.column(self._end))
        kept = on_time(self._context, self._index, changes, ends, epoch, self._tick)
        if len(kept) < len(ends):
            changes, ends = changes.take(kept), ends[kept]
        if self._appends:
            arrivals = pa.repeat(pa.scalar(epoch.arrival, pa.int64()), len(changes))
            # several workers number their rows alike, but each has keys of its own
            by = [arrivals, pa.array(kept.astype(np.int32)), *changes.columns(self._keys)]
            self._waiting.put(ends, by, changes.rows.columns)
        elif len(changes):
            self._count(changes, ends)

    def _count(self, changes: Changes, ends: np.ndarray) -> None:
        """Change how many equal rows there are."""
        groups = codes(changes.rows.columns, len(changes))
        first = groups.first_rows()
        rows, ends = take(changes.rows, first), ends[first]
        found = self._waiting.get(ends, rows.columns)
        before = found.numbers(COPIES, groups.count)
        after, _ = counted(groups.of_row, changes.signs, before)
        there, gone = np.flatnonzero(after > 0), np.flatnonzero((after == 0) & (before > 0))
        kept = take(rows, there).columns
        self._waiting.put(ends[there], kept, [*kept, pa.array(after[there])])
        self._waiting.remove(ends[gone], take(rows, gone).columns)

    def due(self, watermark: int | None) -> Iterator[Due]:
        """Give the rows of the windows that are over, in the order of the windows, in pages."""
        until = None if watermark is None else watermark + self._tick
        for page in self._waiting.due(until):
            if self._appends:
                yield page
                continue
            copies = np.asarray(page.rows.column(page.rows.num_columns - 1))
            numbers = np.repeat(np.arange(len(copies)), copies)
            rows = page.rows.select(page.rows.schema.names[:-1])
            yield Due(page.times[numbers], take(rows, numbers))


class DueRows(Source):
    """Rows of windows that are over, to be read once at a time by a bounded run."""

    primary_key: tuple[str, ...] = ()
    mode = "insert"
    watermark: Watermark | None = None

    def __init__(self, fields: Fields) -> None:
        self.name = "rows of windows that are over"
        self.rows: Iterator[pa.RecordBatch] = iter(())
        self.fields = fields

    def batches(self, columns: Sequence[str], condition: object = None) -> Iterator[pa.RecordBatch]:
        """Give the rows; a condition leaves none out."""
        return self.rows


@operates(Join, TopN, Deduplicate, when=lambda node: node.is_windowed())
class BoundedWindows(Operator):
    """Keeps the rows of open windows; runs the node bounded over those of windows that are over."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self._held = [
            HeldWindows(context, each.fields, end, self._together(each), index)
            for index, (each, end) in enumerate(zip(node.inputs, _ends(node), strict=True))
        ]
        self._due = [DueRows(each.fields) for each in node.inputs]
        self._plan = node.with_inputs(*map(Scan, self._due))

    def _together(self, node: Node) -> tuple[str, ...]:
        """Name the columns by which rows of an input are brought together."""
        is_null_aware = isinstance(self.node, Join) and self.node.null_aware
        return node.keys if isinstance(node, Exchange) and not is_null_aware else ()

    def key_bytes(self, place: int, changes: Changes, keys: Sequence[str]) -> pa.Array:
        together = self._together(self.node.inputs[place])
        return encoded(changes.columns(together), len(changes))

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        for held, changes in zip(self._held, inputs, strict=True):
            held.put(changes, epoch)
        if not epoch.ends:
            return Changes.none(self.node.fields)
        made = [Changes.of_kind(rows) for rows in self._computed(epoch.next_watermark)]
        return concatenated(self.node.fields, made)

    def _computed(self, watermark: int | None) -> Iterator[pa.RecordBatch]:
        """Run the node over the windows that are over, as many at once as pages of them hold."""
        sides = [DuePages(held.due(watermark)) for held in self._held]
        while ends := [end for end in (each.last_whole() for each in sides) if end is not None]:
            for due, side in zip(self._due, sides, strict=True):
                due.rows = (page.rows for page in side.up_to(min(ends)))
            yield from run(self._plan, memory=machine_memory() // OF_MACHINE)
            for due in self._due:
                list(due.rows)  # what the run did not need


def _ends(node: Join | TopN | Deduplicate) -> Iterator[str]:
    """Name the column of each input that holds the window's end."""
    match node:
        case Join():
            left, right = node.left.window_bounds(), node.right.window_bounds()
            assert left is not None
            assert right is not None
            pairs = zip(node.left_keys, node.right_keys, strict=True)
            yield from next((a, b) for a, b in pairs if a in left.end and b in right.end)
        case TopN() | Deduplicate():
            keys = node.partition_by if isinstance(node, TopN) else node.keys
            bounds = node.input.window_bounds()
            assert bounds is not None
            yield next(key for key in keys if key in bounds.end)
