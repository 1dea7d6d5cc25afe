"""Window functions by how far they look, and those that go on from the values of the row before."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.functions.aggregates.kernels import accumulator
from pkray.relational.local.frames import Partitions
from pkray.relational.local.over import NUMBERINGS, computed_call
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.expressions import SortKey, WindowCall
from pkray.relational.plan.over import goes_on, reach, reach_of

_PARTITION = "$window"
"""The column that tells partitions, or stretches of rows, apart."""


def runs_on(calls: Sequence[tuple[str, WindowCall]]) -> bool:
    """Whether each call of a node that looks through whole partitions goes on from the row before
    or looks a few rows back, and so do the others."""
    return reach(calls) is None and all(_runs_on(call) for _, call in calls)


def _runs_on(call: WindowCall) -> bool:
    near = reach_of(call)
    return goes_on(call) if near is None else near.after == 0


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

    def value(self, call: WindowCall, kept: pa.Array | None, numbers: pa.Array | None) -> pa.Array:
        """Compute a call; what comes of the few rows before means nothing.

        Args:
            kept: its values as they were, a value a row; those of the rows before count.
            numbers: the rows' numbers, likewise.
        """
        arguments = [self.table[name].combine_chunks() for name in call.arguments]
        if not goes_on(call):
            return self._computed(call, arguments)
        assert kept is not None
        carry = kept.take(pa.array(self.last, mask=~self.follows))
        known = facts(call.function)
        if known.is_end or known.is_place:
            before = pa.array(self.is_before)
            return self._computed(call, [pc.if_else(before, carry, arguments[0])])
        if known.sums:
            before = pa.array(self.is_before)
            none = pa.scalar(None, arguments[0].type)
            own = self._computed(call, [pc.if_else(before, none, arguments[0])])
            return _sum(call, carry, own)
        if call.function == "rank":
            assert numbers is not None
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


def carried_values(
    rows: pa.RecordBatch,
    partitions: np.ndarray,
    is_before: np.ndarray,
    order_by: Sequence[SortKey],
    calls: Sequence[WindowCall],
    kept: Sequence[pa.Array | None],
) -> list[pa.Array]:
    """Compute calls over rows of which the first of each partition came before.

    Args:
        rows: by partition and order.
        partitions: int64, the number of each row's partition, ascending.
        is_before: whether each row is one of those that came before.
        calls: where one is a rank, the last one numbers the rows.
        kept: of each call that goes on from the row before its values, a value a row; those of the
            rows that came before count.
    """
    table = pa.table([*rows.columns, pa.array(partitions)], names=[*rows.schema.names, _PARTITION])
    ends = np.searchsorted(partitions[is_before], partitions, side="right") - 1
    last = np.append(np.flatnonzero(is_before), 0)[ends]
    follows = np.zeros(len(partitions), bool)
    if is_before.any():
        follows = (ends >= 0) & (partitions[last] == partitions)
    carried = Carried(Partitions(table, [_PARTITION], order_by), table, is_before, last, follows)
    return [carried.value(call, own, kept[-1]) for call, own in zip(calls, kept, strict=True)]


def _sum(call: WindowCall, carry: pa.Array, own: pa.Array) -> pa.Array:
    """Add two sums; NULL where both are."""
    if pa.types.is_floating(own.type):
        none = np.asarray(carry.is_null()) & np.asarray(own.is_null())
        with np.errstate(invalid="ignore", over="ignore"):
            total = np.asarray(pc.fill_null(carry, 0.0)) + np.asarray(pc.fill_null(own, 0.0))
        return pa.array(total, mask=none).cast(call.type.arrow)
    state = accumulator(call.of_group(), [own.type])
    for part in (carry, own):
        state.update(np.arange(len(own)), len(own), [part])
    return state.finish(len(own)).cast(call.type.arrow)
