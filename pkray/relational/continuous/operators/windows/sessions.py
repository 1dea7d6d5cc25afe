"""Sessions: rows wait until nothing can come any more that belongs to their session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import batch_of
from pkray.columns.keys import argsort, begins, codes
from pkray.relational.continuous.changes import Changes, concatenated, taken
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.aggregates.accumulators import integers
from pkray.relational.continuous.operators.aggregates.groups import aligned, counted
from pkray.relational.continuous.operators.windows.event_time import passed
from pkray.relational.continuous.operators.windows.waiting import Waiting
from pkray.relational.continuous.state.encoding import encoded, identified, parts_of_identified
from pkray.relational.continuous.state.state import KEY, State, StateSpec
from pkray.relational.local.windows import as_micros, in_unit, times_of, with_bounds
from pkray.relational.plan.nodes import Window, WindowKind

ARRIVAL, COUNT = "arrival", "count"
"""When the first of some equal rows came, and how many there are."""
PART, START, LAST, IS_OVER = "part", "start", "last", "is_over"
"""The columns of a session: the encoded key, the times of its first and last row, and whether its
rows were given."""
FIRST_ROWS, GROWTH = 4, 8
"""Rows of a range that are read at first; where it has more, so many times as many."""


@dataclass(frozen=True)
class Spans:
    """Spans of parts of the rows, the parts being numbered.

    Attributes:
        parts: int64, one a span.
        starts, lasts: int64, the times of the first and the last row.
    """

    parts: np.ndarray
    starts: np.ndarray
    lasts: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, numbers: np.ndarray) -> Spans:
        """Take spans by number."""
        return Spans(self.parts[numbers], self.starts[numbers], self.lasts[numbers])


def joined(*several: Spans) -> Spans:
    """Put spans one behind the other."""
    nothing = np.zeros(0, np.int64)
    return Spans(
        np.concatenate([nothing, *(each.parts for each in several)]),
        np.concatenate([nothing, *(each.starts for each in several)]),
        np.concatenate([nothing, *(each.lasts for each in several)]),
    )


def merged(spans: Spans, gap: int) -> tuple[Spans, np.ndarray]:
    """Make one of spans of a part that are at most a gap apart.

    Returns:
        the spans, in the order of parts and times; into which each of the given ones went.
    """
    if not len(spans):
        return spans, np.zeros(0, np.int64)
    order = argsort([spans.parts, spans.starts], len(spans))
    parts, starts, lasts = spans.parts[order], spans.starts[order], spans.lasts[order]
    first = begins([parts], len(order))
    furthest = _furthest(np.cumsum(first), lasts)
    first[1:] |= starts[1:] > furthest[:-1] + gap
    begin = np.flatnonzero(first)
    end = np.append(begin[1:], len(order)) - 1
    of_span = np.empty(len(order), np.int64)
    of_span[order] = np.cumsum(first) - 1
    return Spans(parts[begin], starts[begin], furthest[end]), of_span


def _furthest(parts: np.ndarray, lasts: np.ndarray) -> np.ndarray:
    """Find the greatest time of each part so far."""
    by_time = np.argsort(lasts, kind="stable")
    ranks = np.empty_like(by_time)
    ranks[by_time] = np.arange(len(lasts))
    greatest = np.maximum.accumulate(parts * len(lasts) + ranks) % len(lasts)
    result: np.ndarray = lasts[by_time[greatest]]
    return result


def touch(spans: Spans, times: np.ndarray, parts: np.ndarray, gap: int) -> np.ndarray:
    """Whether times are in a span of their part, or at most a gap from it.

    Args:
        spans: more than a gap apart.
    """
    if not len(spans):
        return np.zeros(len(times), bool)
    every = np.concatenate([spans.parts, parts])
    begin = np.concatenate([spans.starts - gap, times])
    is_time = np.r_[np.zeros(len(spans), np.int64), np.ones(len(times), np.int64)]
    order = argsort([every, begin, is_time], len(every))
    # the last span that begins before has the greatest end of all before
    latest = np.maximum.accumulate(np.where(order < len(spans), np.arange(len(order)), -1))
    span = np.where(latest < 0, -1, order[latest])
    near = (span >= 0) & (spans.parts[span] == every[order])
    near &= begin[order] <= spans.lasts[span] + gap
    result = np.empty(len(order), bool)
    result[order] = near
    return result[len(spans) :]


class Stored(NamedTuple):
    """Sessions that are known, of parts as they were asked for."""

    spans: Spans
    is_over: np.ndarray


@dataclass(frozen=True)
class Parts:
    """The partitions that changes are of.

    Attributes:
        of_row: int64, one a change.
        keys: BINARY, one a partition.
    """

    of_row: np.ndarray
    keys: pa.Array

    @classmethod
    def of_changes(cls, changes: Changes, names: Sequence[str]) -> Parts:
        """Tell which partition each change is of, by columns."""
        columns = changes.columns(names)
        numbers = codes(columns, len(changes))
        first = numbers.first_rows()
        return cls(numbers.of_row, identified(taken(columns, first), numbers.count))


class KnownSessions:
    """The sessions of each partition, found by time or when they are due.

    One that is over stays known as long as a row can come that would belong to it, which is late.

    Args:
        node: whose unit of time all is in.
    """

    def __init__(self, node: Window, context: Context) -> None:
        values = [(START, pa.int64()), (LAST, pa.int64()), (IS_OVER, pa.bool_())]
        self._node = node
        self._gap = in_unit(node, node.size)
        kinds = [node.input.fields[name].type.arrow for name in node.partition_by]
        spec = StateSpec(
            pa.schema(values), by_row=True, name="sessions", exchanged_by=_partitions(KEY, kinds)
        )
        self._state = context.open_state(spec)
        ends = pa.schema([(PART, pa.binary()), *values])
        self._ends = Waiting(context, ends, name="ends", exchanged_by=_partitions(PART, kinds))

    def near(self, spans: Spans, keys: pa.Array) -> Stored:
        """Find the sessions that are at most a gap from spans."""
        keys = keys.take(pa.array(spans.parts))
        bounds = encoded([pa.array(spans.starts - self._gap)])
        left, count = np.arange(len(spans)), FIRST_ROWS
        found: list[tuple[np.ndarray, ...]] = []
        while len(left):
            rows = self._state.rows_of(keys.take(left), first=count, bounds=bounds.take(left))
            starts, lasts, is_over = (np.asarray(column) for column in rows.rows.columns)
            near = starts <= spans.lasts[left][rows.positions] + self._gap
            has_more = np.bincount(rows.positions[near], minlength=len(left)) == count
            whole = near & ~has_more[rows.positions]
            parts = spans.parts[left][rows.positions]
            found.append(tuple(each[whole] for each in (parts, starts, lasts, is_over)))
            left, count = left[has_more], count * GROWTH
        parts, starts, lasts, is_over = map(np.concatenate, zip(*found, strict=True))
        once = codes([pa.array(parts), pa.array(starts)], len(parts)).first_rows()
        return Stored(Spans(parts, starts, lasts).take(once), is_over[once])

    def put(self, spans: Spans, keys: pa.Array) -> None:
        """Know sessions that are open."""
        self._write(spans, keys, self._ends_of(spans), is_over=False)

    def remove(self, spans: Spans, keys: pa.Array) -> None:
        """Forget sessions that are open."""
        self._forget(spans, keys)
        keys = keys.take(pa.array(spans.parts))
        self._ends.remove(self._ends_of(spans), [pa.array(spans.starts), keys])

    def ended(self, until: int) -> Iterator[tuple[Spans, pa.Array]]:
        """Give the open sessions that end until then, and know them as those that are over.

        Args:
            until: microseconds.

        Returns:
            sessions in the order of their ends, each a part of its own, with its encoded key.
        """
        over: list[tuple[Spans, pa.Array]] = []
        for due in self._ends.due(until):
            keys, starts, lasts, is_over = due.rows.columns
            spans = Spans(np.arange(len(keys)), np.asarray(starts), np.asarray(lasts))
            over.append((spans, keys))
            ended = spans.take(np.flatnonzero(~np.asarray(is_over)))
            yield ended, keys
        for spans, keys in over:
            self._write(spans, keys, None, is_over=True)
        for spans, keys in over:
            self._wait_on(spans, keys, until)

    def _wait_on(self, spans: Spans, keys: pa.Array, until: int) -> None:
        """Forget sessions that are over once no row can come that belongs to them.

        A row that comes too late by itself still belongs to the open session that it is near: while
        one is open, the session before it is known.
        """
        moments = self._rounded_up(spans.lasts + 2 * self._gap)
        passed = np.flatnonzero(moments <= until)
        asked, bounds = pa.array(spans.parts[passed]), pa.array(spans.lasts[passed] + 1)
        after = self._state.rows_of(keys.take(asked), first=1, bounds=encoded([bounds]))
        _, lasts, is_over = (np.asarray(column) for column in after.rows.columns)
        ends = self._rounded_up(lasts + self._gap)
        moments[passed[after.positions]] = np.where(is_over, until, ends)
        gone = moments <= until
        self._forget(spans.take(np.flatnonzero(gone)), keys)
        left = np.flatnonzero(~gone)
        self._write(spans.take(left), keys, moments[left], is_over=True)

    def _write(
        self, spans: Spans, keys: pa.Array, moments: np.ndarray | None, *, is_over: bool
    ) -> None:
        keys = keys.take(pa.array(spans.parts))
        starts, lasts = pa.array(spans.starts), pa.array(spans.lasts)
        values = [starts, lasts, pa.repeat(is_over, len(spans))]
        self._state.put(keys, values, encoded([lasts]))
        if moments is not None:
            self._ends.put(moments, [starts, keys], [keys, *values])

    def _forget(self, spans: Spans, keys: pa.Array) -> None:
        keys = keys.take(pa.array(spans.parts))
        self._state.remove(keys, encoded([pa.array(spans.lasts)]))

    def _ends_of(self, spans: Spans) -> np.ndarray:
        return self._rounded_up(spans.lasts + self._gap)

    def _rounded_up(self, times: np.ndarray) -> np.ndarray:
        """Give times in microseconds."""
        return as_micros(self._node, times)


def _partitions(name: str, kinds: Sequence[pa.DataType]) -> Callable[[pa.RecordBatch], pa.Array]:
    """Say that the keys of partitions, of columns of some types, stand in a column."""
    every = range(len(kinds))
    return lambda rows: parts_of_identified(rows.column(name), kinds, every)


class SessionRows:
    """The rows of sessions that are open, by partition and time.

    Equal rows are counted where rows may be retracted, and else told apart by when they came.
    """

    def __init__(self, node: Window, context: Context) -> None:
        self._schema = node.input.fields.arrow
        self._counts = not context.inputs[0].is_append
        counts = [pa.field(ARRIVAL, pa.int64()), pa.field(COUNT, pa.int64())]
        schema = pa.schema([*self._schema, *counts])
        kinds = [node.input.fields[name].type.arrow for name in node.partition_by]
        spec = StateSpec(schema, by_row=True, exchanged_by=_partitions(KEY, kinds))
        self._state: State = context.open_state(spec)

    def take(
        self, changes: Changes, parts: Parts, times: np.ndarray, arrivals: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Put rows in and take them out; a retraction that finds none is swallowed.

        Returns:
            numbers of changes whose rows came, and of those whose rows are gone.
        """
        moments = pa.array(times)
        if not self._counts:
            ones = pa.array(np.ones(len(times), np.int64))
            keys = parts.keys.take(pa.array(parts.of_row))
            places = encoded([moments, pa.array(arrivals)])
            self._state.put(keys, [*changes.rows.columns, pa.array(arrivals), ones], places)
            return np.arange(len(times)), np.zeros(0, np.int64)
        whole = codes([pa.array(parts.of_row), *changes.rows.columns], len(times))
        first = whole.first_rows()
        columns = taken(changes.rows.columns, first)
        keys = parts.keys.take(parts.of_row[first])
        places = encoded([moments.take(first), *columns])
        found = aligned(self._state.get(keys, places), whole.count)
        before = integers(found[-1])
        after, _ = counted(whole.of_row, changes.signs, before)
        came = np.where(before > 0, integers(found[-2]), arrivals[first])
        gone = (before > 0) & (after == 0)
        values = [*columns, pa.array(came), pa.array(after)]
        self._state.change(keys, values, after > 0, gone, places)
        return first[(before == 0) & (after > 0)], first[gone]

    def within(
        self, spans: Spans, keys: pa.Array
    ) -> Iterator[tuple[np.ndarray, pa.RecordBatch, pa.Array]]:
        """Read the rows of spans.

        Returns:
            the number of each row's span, the rows as they are kept, and where they stand.
        """
        keys = keys.take(pa.array(spans.parts))
        bounds, ends = encoded([pa.array(spans.starts)]), encoded([pa.array(spans.lasts + 1)])
        left, count = np.arange(len(spans)), FIRST_ROWS
        while len(left):
            found = self._state.rows_of(keys.take(left), first=count, bounds=bounds.take(left))
            inside = np.asarray(pc.less(found.row_keys, ends.take(left[found.positions])))
            has_more = np.bincount(found.positions[inside], minlength=len(left)) == count
            rows = found.take(np.flatnonzero(inside & ~has_more[found.positions]))
            yield left[rows.positions], rows.rows, rows.row_keys
            left, count = left[has_more], count * GROWTH

    def remove(self, keys: pa.Array, places: pa.Array) -> None:
        """Forget rows by partition and where they stand."""
        self._state.remove(keys, places)

    def given(self, rows: pa.RecordBatch) -> tuple[np.ndarray, pa.Table, np.ndarray]:
        """Give each row as often as it is there.

        Returns:
            the numbers of the rows among those that are kept, the rows, and when they came.
        """
        arrivals, counts = (np.asarray(column) for column in rows.columns[-2:])
        numbers = np.repeat(np.arange(len(counts)), counts)
        plain = pa.Table.from_batches([rows.select(range(rows.num_columns - 2))])
        return numbers, plain.take(pa.array(numbers)), arrivals[numbers]


@operates(Window, when=lambda node: node.kind is WindowKind.SESSION)
class Sessions(Operator):
    """Gives rows with the bounds of their session once the watermark has passed its end.

    A row at the end itself still belongs to it, so that a session is over later than another
    window of the same bounds. A row is late if its session is over, or would be if it were open.
    """

    def __init__(self, node: Window, context: Context) -> None:
        super().__init__(node, context)
        self._gap = in_unit(node, node.size)
        self._known = KnownSessions(node, context)
        self._rows = SessionRows(node, context)

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        if len(inputs[0]):
            self._take(inputs[0], epoch)
        if not epoch.ends or epoch.next_watermark is None:
            return Changes.none(self.node.fields)
        ended = self._known.ended(epoch.next_watermark)
        return concatenated(self.node.fields, [self._given(*each) for each in ended])

    def _take(self, changes: Changes, epoch: Epoch) -> None:
        times = times_of(self.node, pa.Table.from_batches([changes.rows]))
        arrivals = np.arange(epoch.arrival, epoch.arrival + len(changes))
        parts = Parts.of_changes(changes, self.node.partition_by)
        late = self._late(changes, times, parts, epoch)
        if late.any():
            self.context.late(0, changes.where(late), epoch)
            kept = np.flatnonzero(~late)
            changes, times, arrivals = changes.take(kept), times[kept], arrivals[kept]
            parts = Parts(parts.of_row[kept], parts.keys)
        came, gone = self._rows.take(changes, parts, times, arrivals)
        touched = np.concatenate([came, gone])
        points = Spans(parts.of_row[touched], times[touched], times[touched])
        spans, _ = merged(points, self._gap)
        known = self._known.near(spans, parts.keys).spans if len(spans) else spans
        spans, of_span = merged(joined(points, known), self._gap)
        split = np.zeros(len(spans), bool)
        split[of_span[len(came) : len(touched)]] = True
        whole = spans.take(np.flatnonzero(~split))
        parted = self._parted(spans.take(np.flatnonzero(split)), parts.keys)
        self._known.remove(known, parts.keys)
        self._known.put(joined(whole, parted), parts.keys)

    def _late(self, changes: Changes, times: np.ndarray, parts: Parts, epoch: Epoch) -> np.ndarray:
        """Tell which rows belong to a session that is over."""
        if epoch.watermark is None:
            return np.zeros(len(times), bool)
        points = Spans(parts.of_row, times, times)
        spans, _ = merged(points, self._gap)
        stored = self._known.near(spans, parts.keys)
        over = stored.spans.take(np.flatnonzero(stored.is_over))
        order = np.lexsort([over.starts, over.parts])
        late = touch(over.take(order), times, parts.of_row, self._gap)
        open_ones = stored.spans.take(np.flatnonzero(~stored.is_over))
        left = np.flatnonzero(~late & changes.adds)
        late[left] = self._is_over(points.take(left), open_ones, epoch)
        gone = np.flatnonzero(~late & ~changes.adds)
        if len(gone):  # of rows that are there or come now, or of a session that is forgotten
            there = joined(open_ones, points.take(np.flatnonzero(~late & changes.adds)))
            late[gone] = self._is_over(points.take(gone), there, epoch)
        return late

    def _is_over(self, points: Spans, others: Spans, epoch: Epoch) -> np.ndarray:
        """Tell whether the sessions that points make with others are over."""
        spans, of_span = merged(joined(points, others), self._gap)
        ends = as_micros(self.node, spans.lasts + self._gap)
        return passed(ends, epoch.watermark, tick=0)[of_span[: len(points)]]

    def _parted(self, spans: Spans, keys: pa.Array) -> Spans:
        """Find the sessions that are left of those from which rows were taken."""
        found = []
        for of_row, rows, _ in self._rows.within(spans, keys):
            times = times_of(self.node, pa.Table.from_batches([rows]))
            found.append(merged(Spans(spans.parts[of_row], times, times), self._gap)[0])
        return joined(*found)

    def _given(self, spans: Spans, keys: pa.Array) -> Changes:
        """Give and forget the rows of sessions, in the order of the ends and as they came."""
        made, order = [], []
        for of_row, rows, places in self._rows.within(spans, keys):
            self._rows.remove(keys.take(pa.array(spans.parts[of_row])), places)
            numbers, plain, arrivals = self._rows.given(rows)
            of_row = of_row[numbers]
            starts, ends = spans.starts[of_row], spans.lasts[of_row] + self._gap
            every = np.arange(len(of_row))
            made.append(with_bounds(self.node, plain, every, starts, ends))
            order.append((ends, arrivals))
        if not made:
            return Changes.none(self.node.fields)
        table = pa.concat_tables(made)
        ends, arrivals = map(np.concatenate, zip(*order, strict=True))
        table = table.take(np.lexsort([arrivals, ends]))
        return Changes.of_kind(batch_of(table.columns, self.node.fields.arrow, len(table)))
