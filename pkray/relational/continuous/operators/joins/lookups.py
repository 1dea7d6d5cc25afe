"""Lookup joins: left rows meet the right side as it is when they come."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pkray.columns.batches import batch_of
from pkray.errors import UnsupportedError
from pkray.relational.continuous.changes import (
    Changes,
    all_valid,
    concat_rows,
    concatenated,
    take,
    taken,
)
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.joins.join_output import NEXT, JoinOutput, beside
from pkray.relational.continuous.operators.joins.join_pairs import matched
from pkray.relational.continuous.operators.joins.join_sides import Asked, Held, KeptSide, SideSpec
from pkray.relational.continuous.operators.joins.sourced_sides import sourced_side
from pkray.relational.continuous.operators.windows.waiting import Waiting
from pkray.relational.continuous.state.encoding import distinct, encoded
from pkray.relational.continuous.state.row_cache import HashesCollideError, RowCache
from pkray.relational.continuous.watermarks import LAST_WATERMARK
from pkray.relational.local.pairs import Sides
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.keys import unique_keys
from pkray.relational.plan.lookup_options import LookupOptions, lookup_options
from pkray.relational.plan.nodes import JoinKind, TemporalJoin

_FOUND_AT = "$found_at"
_ATTEMPTS = "$attempts"
_MICROS, _ALWAYS = 1000, (1 << 63) - 1
"""Microseconds of a millisecond; a time after all others."""


class LookupCache:
    """Remembers the rows of keys, one each, until they change.

    It gives what looking up would give, also when an epoch is run again with nothing remembered.

    Args:
        fields: of the rows.
    """

    def __init__(self, options: LookupOptions, fields: Fields) -> None:
        self._options = options
        self._schema = fields.arrow
        self._types = [*(each.type for each in fields.arrow), pa.int64()]
        self._rows = self._empty()

    def _empty(self) -> RowCache:
        return RowCache(self._types, is_complete=False)

    def forget(self, keys: pa.Array) -> None:
        """Forget the rows of keys: they change."""
        try:
            self._rows.remove(keys.filter(pa.array(self._rows.slots(keys) >= 0)))
        except HashesCollideError:
            self._rows = self._empty()

    def held(self, asked: Asked, now: int, look_up: Callable[[Asked], Held]) -> Held:
        """Find the rows of keys: those that are remembered, and those that `look_up` finds.

        Args:
            now: processing time in milliseconds.
        """
        try:
            return self._held(asked, now, look_up)
        except HashesCollideError:
            self._rows = self._empty()
            return look_up(asked)

    def _held(self, asked: Asked, now: int, look_up: Callable[[Asked], Held]) -> Held:
        positions, columns = self._rows.rows_at(self._rows.slots(asked.keys))
        if self._options.cached_millis:
            fresh = pa.array(np.asarray(columns[-1]) + self._options.cached_millis > now)
            positions = positions[np.asarray(fresh)]
            columns = [column.filter(fresh) for column in columns]
        known = batch_of(columns[:-1], self._schema, len(positions))
        is_missing = np.ones(len(asked.keys), bool)
        is_missing[positions] = False
        missing = np.flatnonzero(is_missing)
        wanted = Asked(asked.keys.take(missing), taken(asked.columns, missing))
        found = look_up(wanted)
        times = pa.array(np.full(len(found.positions), now))
        keys = wanted.keys.take(found.positions)
        self._rows.put(keys, [*found.rows.columns, times])
        self._rows.keep_last_used(self._options.cached_rows)
        whole = np.concatenate([positions, missing[found.positions]])
        order = np.argsort(whole, kind="stable")
        rows = concat_rows(self._schema, [known, found.rows]).take(order)
        row_keys = asked.keys.take(whole[order])
        one = np.ones(len(whole), np.int64)
        return Held(
            asked.keys, whole[order], rows, row_keys, one, np.zeros((0, len(whole)), np.int64)
        )


@operates(TemporalJoin, when=lambda node: node.right_time is None)
class Lookups(Operator):
    """Joins left rows with the right side after the epoch; its changes alone give nothing.

    Left rows are not kept: a retraction meets the right side as it is then. Only rows whose key is
    not there may wait to be looked up again.
    """

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self._sides = Sides.of(node)
        right = self._sides.right
        spec = SideSpec(
            node.right, right, tuple(range(len(right))), node.right_keys, self._sides.null_safe, 1
        )
        self._right = sourced_side(node, spec, context) or KeptSide(spec, context)
        self._waiting: list[Changes] = []
        options = lookup_options(node.right)
        self._cache = _cache(node, options, right)
        self._misses = Misses(node, options, context) if options.attempts else None
        if self._misses is not None:
            self.wakes_at = 0  # rows may wait since before

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        left, right = inputs
        if len(right):
            if self._cache is not None:
                self._cache.forget(encoded(right.columns(self.node.right_keys), len(right)))
            delta = self._right.delta(right, epoch.arrival)
            self._right.write(delta, np.zeros((0, 0), np.int64))
        # left rows wait until all that the epoch brings on the right is there
        self._waiting.append(left)
        if not epoch.ends:
            return Changes.none(self.node.fields)
        left, self._waiting = concatenated(self.node.left.fields, self._waiting), []
        made = [self._looked_up(left, np.zeros(len(left), np.int64), epoch)]
        if self._misses is not None:
            again = [*self._misses.due(epoch)]  # what misses now is not due before the next epoch
            made = [self._looked_up(*each, epoch) for each in again] + made
            self.wakes_at = self._misses.wakes_at
        return concatenated(self.node.fields, made)

    def _looked_up(self, left: Changes, attempts: np.ndarray, epoch: Epoch) -> Changes:
        """Join left rows with the right side as it is.

        Args:
            attempts: int64, how often each was looked up again so far.
        """
        if not len(left):
            return Changes.none(self.node.fields)
        output = JoinOutput(self.node.fields)
        rows = batch_of(left.rows.columns, self._sides.left.arrow, len(left))
        asked, of_row = self._asked(left)
        if self._cache is None:
            held = self._right.held(asked)
        else:
            held = self._cache.held(asked, epoch.time, self._right.held)
        numbers, others = matched(self._sides, True, rows, of_row, held)
        copies = held.copies[others]
        numbers, others = np.repeat(numbers, copies), np.repeat(others, copies)
        columns = beside(True, take(rows, numbers), take(held.rows, others))
        output.add(columns, left.kinds[numbers], numbers, NEXT)
        is_alone = np.ones(len(left), bool)
        is_alone[numbers] = False
        if self._misses is not None:
            is_missing = (of_row >= 0) & (held.ranges(of_row)[1] == 0)
            is_alone &= ~self._misses.put(left, attempts, is_missing, epoch)
        if self.node.kind is JoinKind.LEFT:
            alone = np.flatnonzero(is_alone)
            columns = beside(True, take(rows, alone), self._sides.right.arrow)
            output.add(columns, left.kinds[alone], alone, NEXT)
        return output.changes()

    def _asked(self, left: Changes) -> tuple[Asked, np.ndarray]:
        """Give the distinct keys of left rows, and for each row the number of its key or -1."""
        columns = left.columns(self.node.left_keys)
        valid = all_valid(columns, len(left))
        kept = np.flatnonzero(valid)
        of_row = np.full(len(left), -1)
        keys, numbers = distinct(encoded(taken(columns, kept), len(kept)))
        of_row[kept] = numbers
        first = np.empty(len(keys), np.int64)
        first[numbers[::-1]] = kept[::-1]
        return Asked(keys, taken(columns, first)), of_row


def _cache(node: TemporalJoin, options: LookupOptions, right: Fields) -> LookupCache | None:
    """Make what remembers rows; None where nothing is to be remembered, or cannot be."""
    if not options.cached_rows or not RowCache.holds([each.type for each in right.arrow]):
        return None
    if not any(key <= set(node.right_keys) for key in unique_keys(node.right)):
        raise UnsupportedError(
            "hint LOOKUP remembers rows of which a key has one: join with a table by its whole "
            "primary key, or leave 'cache.max-rows' out",
            node="TemporalJoin",
        )
    return LookupCache(options, right)


class Misses:
    """Left rows whose key was not there, until they are looked up again."""

    def __init__(self, node: TemporalJoin, options: LookupOptions, context: Context) -> None:
        if not context.inputs[0].is_append:
            raise UnsupportedError(
                "rows that a lookup misses can wait only where none is taken back: leave "
                "'max-attempts' and what belongs to it out of hint LOOKUP",
                node="TemporalJoin",
            )
        self._options = options
        self._keys = node.left_keys
        columns = pa.schema([*node.left.fields.arrow, pa.field(_ATTEMPTS, pa.int64())])
        self._waiting = Waiting(context, columns, name="misses", keys=node.left_keys)

    @property
    def wakes_at(self) -> int | None:
        """Processing time in milliseconds at which the first is looked up again."""
        moment = self._waiting.next_moment
        return None if moment is None else moment // _MICROS

    def put(
        self, left: Changes, attempts: np.ndarray, is_missing: np.ndarray, epoch: Epoch
    ) -> np.ndarray:
        """Keep rows that are to be looked up again; say which."""
        if _is_last(epoch):
            return np.zeros(len(left), bool)
        waits = is_missing & (attempts < self._options.attempts)
        numbers = np.flatnonzero(waits)
        kept = left.take(numbers)
        times = np.full(len(numbers), (epoch.time + self._options.delay) * _MICROS)
        tried = pa.array(attempts[numbers] + 1)
        calls = pa.array(np.full(len(numbers), epoch.arrival))
        by = [calls, tried, pa.array(numbers), *kept.columns(self._keys)]
        self._waiting.put(times, by, [*kept.rows.columns, tried])
        return waits

    def due(self, epoch: Epoch) -> Iterator[tuple[Changes, np.ndarray]]:
        """Give the rows whose time has come, and how often they were looked up again."""
        for page in self._waiting.due(_ALWAYS if _is_last(epoch) else epoch.time * _MICROS):
            rows = page.rows.select(page.rows.schema.names[:-1])
            tried = np.asarray(page.rows.column(page.rows.num_columns - 1))
            yield Changes.of_kind(rows), tried


def _is_last(epoch: Epoch) -> bool:
    """Whether no source changes any more: nothing waits longer."""
    return epoch.next_watermark is not None and epoch.next_watermark >= LAST_WATERMARK
