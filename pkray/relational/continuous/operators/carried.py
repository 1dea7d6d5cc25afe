"""Window functions by how far they look, and those that go on from the values of the row before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.local.exact import Limbs
from pkray.relational.local.frames import Frames, Partitions
from pkray.relational.local.over import NUMBERINGS, computed_call
from pkray.relational.plan.expressions import WindowCall

_COUNTED = ("row_number", "dense_rank", "count")
_SUMMED = ("sum", "sum_wrapping")
_REPEATED = ("min", "max", "first_value", "first")
"""Functions whose value so far can stand for the rows so far."""


class Reach(NamedTuple):
    """Count the rows before and after a row that its values depend on."""

    before: int
    after: int


def reach(calls: Sequence[tuple[str, WindowCall]]) -> Reach | None:
    """Find how far calls look; None: through the whole partition."""
    each = [reach_of(call) for _, call in calls]
    if any(one is None for one in each):
        return None
    known = [one for one in each if one is not None]
    return Reach(
        max((one.before for one in known), default=0), max((one.after for one in known), default=0)
    )


def reach_of(call: WindowCall) -> Reach | None:
    """Find how far a call looks; None: through the whole partition."""
    if call.function in ("lag", "lead"):
        offset = int(call.parameters[0].value) if call.parameters else 1
        ahead = offset if call.function == "lead" else -offset
        return None if call.ignore_nulls else Reach(max(-ahead, 0), max(ahead, 0))
    start, end = call.frame.start, call.frame.end
    if call.function in NUMBERINGS or call.frame.unit != "rows" or start is None or end is None:
        return None
    return Reach(max(-int(start), 0), max(int(end), 0))


def runs_on(calls: Sequence[tuple[str, WindowCall]]) -> bool:
    """Whether each call of a node that looks through whole partitions goes on from the row before
    or looks a few rows back, and so do the others."""
    return reach(calls) is None and all(_runs_on(call) for _, call in calls)


def _runs_on(call: WindowCall) -> bool:
    near = reach_of(call)
    if near is not None:
        return near.after == 0
    if call.function in ("row_number", "rank", "dense_rank"):
        return True
    ignores = call.ignore_nulls or any(each.value is True for each in call.parameters)
    until_now = call.frame.start is None and call.frame.end == 0
    known = call.function in (*_COUNTED, *_SUMMED, *_REPEATED)
    return until_now and known and not ignores and call.udf is None


def sees_peers(call: WindowCall) -> bool:
    """Whether rows that are equal in order have one value."""
    if call.function in NUMBERINGS:
        return call.function != "row_number"
    return call.function not in ("lag", "lead") and call.frame.unit == "range"


@dataclass(frozen=True)
class Carried:
    """Rows from some place of each partition on, and a few before it.

    Attributes:
        partitions: of all these rows.
        table: the rows, by partition and order.
        is_before: whether each row is one of the few before.
        last: for each row the number of the last of those in its partition.
        follows: whether there is any.
    """

    partitions: Partitions
    table: pa.Table
    is_before: np.ndarray
    last: np.ndarray
    follows: np.ndarray

    def value(self, call: WindowCall, kept: pa.Array, numbers: pa.Array) -> pa.Array:
        """Compute a call; what comes of the few rows before means nothing.

        Args:
            kept: its values as they were, a value a row; those of the rows before count.
            numbers: the rows' numbers, likewise.
        """
        arguments = [self.table[name].combine_chunks() for name in call.arguments]
        if reach_of(call) is not None:
            return self._computed(call, arguments)
        carry = kept.take(pa.array(self.last, mask=~self.follows))
        if call.function in _REPEATED:
            before = pa.array(self.is_before)
            return self._computed(call, [pc.if_else(before, carry, arguments[0])])
        if call.function in _SUMMED:
            before = pa.array(self.is_before)
            none = pa.scalar(None, arguments[0].type)
            own = self._computed(call, [pc.if_else(before, none, arguments[0])])
            return _sum(call, carry, own)
        if call.function == "rank":
            carry = numbers.take(pa.array(self.last, mask=~self.follows))
        own = np.asarray(self._computed(call, arguments)).astype(np.int64)
        passed = own
        if call.function == "rank":
            passed = self.partitions.places - self.partitions.start + 1
        from_here = np.where(self.follows, passed[self.last], 0)
        so_far = np.asarray(pc.fill_null(carry, 0)).astype(np.int64)
        return pa.array(own - from_here + so_far).cast(call.type.arrow)

    def _computed(self, call: WindowCall, arguments: list[pa.Array]) -> pa.Array:
        return computed_call(self.partitions, call, arguments)


def _sum(call: WindowCall, carry: pa.Array, own: pa.Array) -> pa.Array:
    """Add two sums; NULL where both are."""
    none = np.asarray(carry.is_null()) & np.asarray(own.is_null())
    if pa.types.is_floating(own.type):
        with np.errstate(invalid="ignore", over="ignore"):
            total = np.asarray(pc.fill_null(carry, 0.0)) + np.asarray(pc.fill_null(own, 0.0))
        return pa.array(total, mask=none).cast(call.type.arrow)
    rows = len(own)
    places = np.arange(rows)
    both = pa.concat_arrays([carry, own]).take(
        pa.array(np.stack([places, places + rows], 1).ravel())
    )
    return Limbs.of(both).sums(Frames(2 * places, 2 * places + 2)).finished(call, none)
