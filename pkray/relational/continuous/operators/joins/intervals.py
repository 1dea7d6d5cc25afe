"""Joins of rows whose times are near: pairs come at once, rows without one when none can come."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import batch_of
from pkray.columns.keys import codes
from pkray.relational.continuous.changes import (
    Changes,
    concat_rows,
    concatenated,
    named,
    take,
    taken,
)
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.aggregates.groups import counted
from pkray.relational.continuous.operators.joins.join_output import NEXT, JoinOutput, beside
from pkray.relational.continuous.operators.windows.event_time import micros, on_time
from pkray.relational.continuous.operators.windows.waiting import Waiting
from pkray.relational.continuous.state.encoding import distinct, encoded
from pkray.relational.continuous.state.state import Found, StateSpec, own_keys
from pkray.relational.local.pairs import JOINED_ROWS, Sides, keyed_pairs
from pkray.relational.local.temporal import near
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.nodes import IntervalJoin, JoinKind
from pkray.schema.row_kind import DELETE, INSERT

COPIES, MATCHES, ROW = "$copies", "$matches", "$row"
"""Columns of a side: count of equal rows, count of rows of the other side each meets, row key."""
FIRST_ROWS, MOST_ROWS = 16, 1 << 14
"""Rows of a key that are read at a time: few at first, as most keys have few."""
_LEFT, _RIGHT = 0, 1
_PADDED = {
    JoinKind.LEFT: (_LEFT,),
    JoinKind.RIGHT: (_RIGHT,),
    JoinKind.FULL: (_LEFT, _RIGHT),
    JoinKind.ANTI: (_LEFT,),
}
"""The sides whose rows come out if they meet none."""


@dataclass(frozen=True)
class NearSpec:
    """Describes a side of a join of rows that are near in time.

    Attributes:
        fields: its columns, as they are called in the joined row.
        keys: the join key, of the input's columns.
        time: of the input's columns.
        index: 0 for the left side, 1 for the right one.
        before, after: microseconds: rows of the other side are so far from its time at most.
        counts: whether it matters how many rows of the other side each row meets.
    """

    fields: Fields
    keys: tuple[str, ...]
    time: str
    index: int
    before: int
    after: int
    counts: bool


@dataclass(frozen=True)
class NearDelta:
    """Holds what changes add to the rows of a side and take from them.

    Attributes:
        rows: of the side's columns.
        times: int64, microseconds.
        keys, row_keys: BINARY, as states know the rows.
        copies: int64, how many equal rows there are afterwards.
        signs: int64, how many of them are new; less than 0: are gone.
        causes: int64, the number of the change that each comes from.
    """

    rows: pa.RecordBatch
    times: np.ndarray
    keys: pa.Array
    row_keys: pa.Array
    copies: np.ndarray
    signs: np.ndarray
    causes: np.ndarray


@dataclass(frozen=True)
class NearRows:
    """Rows of a side that were found.

    Attributes:
        rows: of the side's columns.
        keys, row_keys: BINARY, as states know the rows.
        copies, matches: int64; ones and zeros where they are not kept.
    """

    rows: pa.RecordBatch
    keys: pa.Array
    row_keys: pa.Array
    copies: np.ndarray
    matches: np.ndarray


class NearSide:
    """Keeps the rows of one side until the watermark says that no row can meet them.

    A row is not late as long as the watermark is before its time, and stays at least so long.
    """

    def __init__(self, spec: NearSpec, context: Context) -> None:
        self.spec = spec
        self._context = context
        self._appends = context.inputs[spec.index].is_append
        counts = [*([] if self._appends else [COPIES]), *([MATCHES] if spec.counts else [])]
        kept = pa.schema([*spec.fields.arrow, *(pa.field(each, pa.int64()) for each in counts)])
        state = StateSpec(kept, by_row=True, index=spec.index, exchanged_by=own_keys)
        self._rows = context.open_state(state)
        of_keys = [spec.fields.arrow.field(name) for name in spec.keys]
        ends = pa.schema([*of_keys, pa.field(ROW, pa.binary())])
        self._ends = Waiting(context, ends, index=spec.index, name="ends", keys=spec.keys)

    def delta(self, changes: Changes, epoch: Epoch) -> NearDelta:
        """Work out what changes do to the rows; late ones are left out."""
        times = micros(changes.column(self._input_name(self.spec.time, changes)))
        numbers = on_time(self._context, self.spec.index, changes, times, epoch)
        changes, times = changes.take(numbers), times[numbers]
        rows = batch_of(changes.rows.columns, self.spec.fields.arrow, len(changes))
        moments = pa.array(times)
        if self._appends:
            arrivals = pa.array(np.full(len(times), epoch.arrival))
            row_keys = encoded([moments, arrivals, pa.array(numbers.astype(np.int32))])
            one = np.ones(len(times), np.int64)
            return NearDelta(rows, times, self._keys(rows), row_keys, one, one, numbers)
        return self._counted(changes, rows, times, numbers)

    def _input_name(self, name: str, changes: Changes) -> str:
        place = self.spec.fields.names.index(name)
        return str(changes.rows.schema.names[place])

    def _keys(self, rows: pa.RecordBatch) -> pa.Array:
        return encoded(named(rows, self.spec.keys), rows.num_rows)

    def _counted(
        self, changes: Changes, rows: pa.RecordBatch, times: np.ndarray, numbers: np.ndarray
    ) -> NearDelta:
        groups = codes(rows.columns, len(times))
        last = np.empty(groups.count, np.int64)
        last[groups.of_row] = np.arange(len(times))
        rows_of, times_of = take(rows, last), times[last]
        keys = self._keys(rows_of)
        row_keys = encoded([pa.array(times_of), *rows_of.columns])
        found = self._rows.get(keys, row_keys)
        before = found.numbers(COPIES, groups.count)
        after, _ = counted(groups.of_row, changes.signs, before)
        order = np.argsort(last, kind="stable")
        kept = order[(after != before)[order]]
        return NearDelta(
            take(rows_of, kept),
            times_of[kept],
            keys.take(kept),
            row_keys.take(kept),
            after[kept],
            (after - before)[kept],
            numbers[last[kept]],
        )

    def write(self, delta: NearDelta, matches: np.ndarray) -> None:
        """Keep what a delta leaves.

        Args:
            matches: int64, how many rows of the other side each of its rows meets.
        """
        there = delta.copies > 0
        values = [*delta.rows.columns, *self._counts(delta.copies, matches)]
        self._rows.change(delta.keys, values, there, ~there, delta.row_keys)
        ends = delta.times[there] + max(self.spec.after, 0)
        known = [*named(delta.rows, self.spec.keys), delta.row_keys]
        known = taken(known, np.flatnonzero(there))
        self._ends.put(ends, known, known)

    def _counts(self, copies: np.ndarray, matches: np.ndarray) -> list[pa.Array]:
        kept = [] if self._appends else [pa.array(copies)]
        return [*kept, pa.array(matches)] if self.spec.counts else kept

    def rematch(self, found: NearRows, matches: np.ndarray) -> None:
        """Write how many rows of the other side rows meet, where that changed."""
        numbers = np.flatnonzero(matches != found.matches)
        if self.spec.counts and len(numbers):
            counts = self._counts(found.copies[numbers], matches[numbers])
            values = [*take(found.rows, numbers).columns, *counts]
            self._rows.put(found.keys.take(numbers), values, found.row_keys.take(numbers))

    def near(self, other: NearDelta, spec: NearSpec) -> NearRows:
        """Find the rows that rows of the other side may meet, by key and time.

        Args:
            spec: of the other side.
        """
        keys, of_row = distinct(other.keys)
        low = np.full(len(keys), np.iinfo(np.int64).max)
        high = np.full(len(keys), np.iinfo(np.int64).min)
        np.minimum.at(low, of_row, other.times - spec.before)
        np.maximum.at(high, of_row, other.times + spec.after)
        parts = [*self._between(keys, low, high)]
        rows = concat_rows(self._rows.spec.columns, [found.rows for _, found in parts])
        positions = np.concatenate([np.zeros(0, np.int64), *(numbers for numbers, _ in parts)])
        row_keys = [found.row_keys for _, found in parts if found.row_keys is not None]
        row_keys = pa.concat_arrays([pa.array([], pa.binary()), *row_keys])
        return self._found(rows, keys.take(positions), row_keys)

    def _between(
        self, keys: pa.Array, low: np.ndarray, high: np.ndarray
    ) -> Iterator[tuple[np.ndarray, Found]]:
        """Read the rows of keys from one time to another, so many at a time.

        Yields:
            for each row the number of its key; and the rows.
        """
        size, asked = FIRST_ROWS, np.arange(len(keys))
        bounds = encoded([pa.array(low)])
        time = self._rows.spec.columns.get_field_index(self.spec.time)
        while len(asked):
            found = self._rows.rows_of(keys.take(asked), first=size, bounds=bounds)
            numbers = asked[found.positions]
            inside = micros(found.rows.column(time)) <= high[numbers]
            sizes = np.bincount(found.positions, minlength=len(asked))
            last = np.cumsum(sizes) - 1
            more = np.flatnonzero(sizes == size)
            more = more[inside[last[more]]]
            after = found.row_keys.take(last[more])
            chosen = np.flatnonzero(inside)
            yield numbers[chosen], found.take(chosen)
            asked, bounds = asked[more], _next_after(after)
            size = min(8 * size, MOST_ROWS)

    def _found(self, rows: pa.RecordBatch, keys: pa.Array, row_keys: pa.Array) -> NearRows:
        count, width = rows.num_rows, len(self.spec.fields)
        copies, matches = np.ones(count, np.int64), np.zeros(count, np.int64)
        if not self._appends:
            copies = np.asarray(rows.column(width))
        if self.spec.counts:
            matches = np.asarray(rows.column(rows.num_columns - 1))
        plain = batch_of(rows.columns[:width], self.spec.fields.arrow, count)
        return NearRows(plain, keys, row_keys, copies, matches)

    def over(self, watermark: int | None) -> Iterator[NearRows]:
        """Give the rows that nothing can meet any more, and forget them.

        Where it does not matter what rows meet, they are forgotten alone.
        """
        for page in self._ends.due(watermark):
            keys = encoded(named(page.rows, self.spec.keys), page.rows.num_rows)
            row_keys = page.rows.column(page.rows.num_columns - 1)
            if self.spec.counts:
                found = self._rows.get(keys, row_keys)
                known = keys.take(found.positions), row_keys.take(found.positions)
                yield self._found(found.rows, *known)
            self._rows.remove(keys, row_keys)


def _next_after(row_keys: pa.Array) -> pa.Array:
    """Give bytes that come right after row keys."""
    end, nothing = (pa.scalar(each, pa.binary()) for each in (b"\0", b""))
    return pc.binary_join_element_wise(row_keys, end, nothing)


@operates(IntervalJoin)
class IntervalJoins(Operator):
    """Joins rows of equal keys whose times are near, and forgets those that can meet none."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self._pairs_of = Sides.of(node)
        self._padded = _PADDED.get(node.kind, ())
        right_time = node.right_names[node.right.fields.names.index(node.right_time)]
        sides, counted = self._pairs_of, node.kind is JoinKind.SEMI
        left = NearSpec(
            sides.left,
            sides.left_keys,
            node.left_time,
            _LEFT,
            node.upper,
            -node.lower,
            counted or _LEFT in self._padded,
        )
        right = NearSpec(
            sides.right,
            sides.right_keys,
            right_time,
            _RIGHT,
            -node.lower,
            node.upper,
            _RIGHT in self._padded,
        )
        self._sides = [NearSide(left, context), NearSide(right, context)]

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        made = [self._joined(index, inputs[index], epoch) for index in (_LEFT, _RIGHT)]
        if epoch.ends:
            made += [self._over(index, epoch.next_watermark) for index in (_LEFT, _RIGHT)]
        return concatenated(self.node.fields, made)

    def _joined(self, index: int, changes: Changes, epoch: Epoch) -> Changes:
        """Take the changes of one side: they meet the rows of the other."""
        if not len(changes):
            return Changes.none(self.node.fields)
        side, other = self._sides[index], self._sides[1 - index]
        delta = side.delta(changes, epoch)
        if not len(delta.signs):
            return Changes.none(self.node.fields)
        found = other.near(delta, side.spec)
        rows, others = self._pairs(index, delta, found)
        count = np.bincount(rows, found.copies[others], len(delta.signs)).astype(np.int64)
        gains = np.bincount(others, delta.signs[rows], len(found.copies)).astype(np.int64)
        output = JoinOutput(self.node.fields)
        if self.node.kind.keeps_right:
            self._give_pairs(index, delta, found, (rows, others), output)
        elif self.node.kind is JoinKind.SEMI:
            self._answer(index, delta, found, (count, gains), output)
        side.write(delta, count)
        other.rematch(found, found.matches + gains)
        return output.changes()

    def _pairs(
        self, index: int, delta: NearDelta, found: NearRows
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pair a delta's rows with rows of the other side; in the order of the delta's."""
        tables = [pa.Table.from_batches([each]) for each in (delta.rows, found.rows)]
        ours, theirs = tables if index == _LEFT else tables[::-1]
        ranges = near(self.node, self._pairs_of, ours, theirs)
        pairs = list(keyed_pairs(self._pairs_of, ours, theirs, ranges, JOINED_ROWS))
        nothing = np.zeros(0, np.int64)
        left = np.concatenate([nothing, *(each for each, _ in pairs)])
        right = np.concatenate([nothing, *(each for _, each in pairs)])
        rows, others = (left, right) if index == _LEFT else (right, left)
        order = np.lexsort((others, rows))
        return rows[order], others[order]

    def _give_pairs(
        self,
        index: int,
        delta: NearDelta,
        found: NearRows,
        pairs: tuple[np.ndarray, np.ndarray],
        output: JoinOutput,
    ) -> None:
        copies = np.abs(delta.signs)[pairs[0]] * found.copies[pairs[1]]
        rows, others = (np.repeat(each, copies) for each in pairs)
        columns = beside(index == _LEFT, take(delta.rows, rows), take(found.rows, others))
        kinds = np.where(delta.signs > 0, INSERT, DELETE)[rows]
        output.add(columns, kinds, delta.causes[rows], NEXT)

    def _answer(
        self,
        index: int,
        delta: NearDelta,
        found: NearRows,
        counts: tuple[np.ndarray, np.ndarray],
        output: JoinOutput,
    ) -> None:
        """Give left rows that meet their first row, and take back those that meet none any more."""
        count, gains = counts
        if index == _LEFT:
            rows = np.repeat(np.arange(len(count)), np.abs(delta.signs) * (count > 0))
            kinds = np.where(delta.signs > 0, INSERT, DELETE)[rows]
            output.add(take(delta.rows, rows).columns, kinds, delta.causes[rows], NEXT)
            return
        before, after = found.matches > 0, found.matches + gains > 0
        rows = np.repeat(np.arange(len(before)), found.copies * (before != after))
        kinds = np.where(after, INSERT, DELETE)[rows]
        output.add(take(found.rows, rows).columns, kinds, np.zeros(len(rows), np.int64), NEXT)

    def _over(self, index: int, watermark: int | None) -> Changes:
        """Forget the rows that can meet none any more; pad those that met none."""
        output = JoinOutput(self.node.fields)
        for page, rows in enumerate(self._sides[index].over(watermark)):
            if index not in self._padded:
                continue
            times = rows.copies * (rows.matches == 0)
            alone = take(rows.rows, np.repeat(np.arange(len(times)), times))
            columns, count = alone.columns, alone.num_rows
            if self.node.kind.keeps_right:
                other = self._sides[1 - index].spec.fields.arrow
                columns = beside(index == _LEFT, alone, other)
            output.add(columns, np.full(count, INSERT), np.full(count, page), NEXT)
        return output.changes()
