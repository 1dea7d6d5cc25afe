"""Choose how each aggregate is computed: what is kept a group, and the result of it.

A call whose rows can be taken out of a number again is accumulated (`accumulators`), DISTINCT ones
over the values that come to a `Bag` or leave it. Of others a row or all are kept (`held_rows`);
where rows are only added, what was computed so far suffices (`appended`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.continuous.operator import Context
from pkray.relational.continuous.operators.aggregates.accumulators import (
    Accumulator,
    Columns,
    Count,
    CountTrue,
    Exact,
    Floats,
    Moments,
    Numbers,
    Parity,
    Restored,
    Take,
    Taken,
    Wrapped,
    integers,
)
from pkray.relational.continuous.operators.aggregates.appended import Chosen, Collected, Combined
from pkray.relational.continuous.operators.aggregates.bags import (
    Arrivals,
    Bag,
    BagView,
    Selection,
    View,
)
from pkray.relational.continuous.operators.aggregates.groups import Groups
from pkray.relational.continuous.operators.aggregates.held_rows import End, Whole
from pkray.relational.functions.aggregates.accumulator import required_arguments
from pkray.relational.functions.aggregates.overflow import unfit, unfit_sum
from pkray.relational.functions.aggregates.sums import means, wrapped
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.expressions import AggregateCall, SortKey
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.nodes import Aggregate
from pkray.rows.decimals import unscaled

Finish = Callable[[Columns, np.ndarray, Groups], pa.Array]
"""Makes a call's values of its states, the rows of each group, and the groups."""


@dataclass(frozen=True)
class Computed:
    """Say how one call is computed.

    Attributes:
        parts: what it reads.
        finish: makes its values of their states.
    """

    parts: tuple[Accumulator, ...]
    finish: Finish


class Calls:
    """Plans the calls of one operator; those that keep the same thing share it.

    Args:
        fields: of the input.
        retracts: whether rows are taken out.
    """

    def __init__(
        self, fields: Fields, calls: Sequence[tuple[str, AggregateCall]], *, retracts: bool
    ) -> None:
        self._fields = fields
        self._retracts = retracts
        self._bags: dict[Any, Bag] = {}
        self._arrivals: dict[Any, Arrivals] = {}
        self._shared: dict[Any, Accumulator] = {}
        self._ends: list[tuple[Any, AggregateCall]] = []
        planned = [call for _, call in calls]
        self._tried = {_taken_by(call) for call in planned if facts(call.function).tries}
        # ends want a bag of their own selection alone: they come last
        order = sorted(range(len(planned)), key=lambda place: self._is_end(planned[place]))
        made = {place: self._computed(planned[place]) for place in order}
        self.computed = [made[place] for place in range(len(planned))]

    def open(self, context: Context) -> None:
        """Open the states beside the main one."""
        for number, each in enumerate(self._beside):
            each.open(context, f"rows{number or ''}")

    def forget(self, keys: pa.Array) -> None:
        """Remove groups from the states beside the main one, by their keys as `Groups` encodes
        them."""
        for each in self._beside:
            each.forget(keys)

    @property
    def _beside(self) -> list[Bag | Arrivals]:
        return [*self._bags.values(), *self._arrivals.values()]

    def _is_end(self, call: AggregateCall) -> bool:
        known = facts(call.function)
        return known.is_end or (known.is_place and bool(call.order_by))

    def _computed(self, call: AggregateCall) -> Computed:
        known = facts(call.function)
        if facts(known.distinct_of).takes_back:
            return self._accumulated(replace(call, function=known.distinct_of, distinct=True))
        if known.takes_back:
            return self._accumulated(call)
        if not self._retracts:
            appended = self._appended(call)
            if appended is not None:
                return Computed((appended,), _finish_appended(call))
        if known.is_end or known.is_place:
            return Computed((self._end(call),), _second)
        return Computed((Whole(self._rows_of(call), call),), _first)

    # --- Numbers ----------------------------------------------------------------------------------

    def _accumulated(self, call: AggregateCall) -> Computed:
        name = call.function
        if name == "count":
            if not call.distinct and not call.filter and not self._nullable(call):
                return Computed((), _count_rows)
            return Computed((self._part(call, Count),), _count)
        if name == "count_if":
            return Computed((self._part(call, CountTrue),), _count)
        if name in ("bool_and", "bool_or"):
            parts = (self._part(call, CountTrue), self._part(call, Count))
            return Computed(parts, _all_true if name == "bool_and" else _any_true)
        if name == "bit_xor":
            kind = call.type.arrow
            parity = self._part(call, Parity, lambda take: Parity(take, kind))
            return Computed((parity, self._part(call, Count)), _valued)
        if facts(name).sums:
            return self._sum(call)
        count = len(call.arguments)
        moments = self._part(call, Moments, lambda take: Moments(take, count))
        return Computed((moments,), _finish_spread(call))

    def _sum(self, call: AggregateCall) -> Computed:
        kind = self._types(call.arguments)[0]
        if pa.types.is_floating(kind):
            floats = self._part(call, Floats, lambda take: Floats(take, retracts=self._retracts))
            return Computed((floats,), _finish_floats(call))
        count = self._part(call, Count)
        if facts(call.function).wraps:
            return Computed((self._part(call, Wrapped), count), _finish_wrapped(call))
        total = pa.int64()
        if pa.types.is_decimal(kind) or call.function != "sum":
            total = pa.decimal128(38, kind.scale if pa.types.is_decimal(kind) else 0)
        argument = call.arguments[0]
        beyond = pa.types.is_decimal(kind) and _taken_by(call) in self._tried
        exact = self._part(
            call, (Exact, total), lambda take: Exact(take, total, argument, beyond=beyond)
        )
        return Computed((exact, count), _finish_exact(call))

    def _part(
        self, call: AggregateCall, kind: Any, make: Callable[[Take], Accumulator] | None = None
    ) -> Accumulator:
        """Give what is kept for a call, the same to all that need it."""
        key = (kind, *_taken_by(call))
        if key not in self._shared:
            selection = self._selection(call)
            if _counts_once(call):
                view = self._bag((), call.arguments).view(selection)
                take = _coming_and_going(view, call.arguments)
            else:
                take = _direct(selection, call.arguments)
            self._shared[key] = (make or kind)(take)
        return self._shared[key]

    # --- Rows -------------------------------------------------------------------------------------

    def _appended(self, call: AggregateCall) -> Accumulator | None:
        """Give what needs no rows where none is taken out."""
        take = _direct(self._selection(call), call.arguments)
        if call.function in ("min", "max", "bit_and", "bit_or"):
            return Combined(take, call)
        if _chooses_row(call):
            names = (*call.arguments, *(key.column for key in call.order_by))
            whole = _direct(self._selection(call), names)
            return Chosen(whole, call, self._types(names))
        if facts(call.function).collects and not call.order_by:
            return Collected(take, call, self._fields[call.arguments[0]].type)
        return None

    def _end(self, call: AggregateCall) -> Accumulator:
        known, names = facts(call.function), call.arguments[:1]
        if known.is_place and not call.order_by:
            view: View = self._arrived(call)
        else:
            view = self._ordered(call)
        return End(view, names, [call.type.arrow], last=known.is_last)

    def _ordered(self, call: AggregateCall) -> BagView:
        """Give a bag whose first or last row is the one; it has this call's selection alone."""
        order = call.order_by or tuple(SortKey(name) for name in reversed(call.arguments))
        selection = self._selection(call)
        plain = () if call.function in ("min", "max") else order
        bag = self._bags.get((plain, call.arguments))
        if bag is None or bag.selections == [selection]:
            return self._bag(plain, call.arguments).view(selection)
        return self._bag(plain, call.arguments, selection).view(selection)

    def _rows_of(self, call: AggregateCall) -> View:
        """Give all rows of a call: by arrival where their order is theirs, else by value."""
        known = facts(call.function)
        if (known.collects or known.by_arrival) and not call.order_by:
            return self._arrived(call)
        return self._bag(call.order_by, call.arguments).view(self._selection(call))

    def _arrived(self, call: AggregateCall) -> Arrivals:
        selection = self._selection(call)
        key = (call.arguments[:1], selection)
        if key not in self._arrivals:
            self._arrivals[key] = Arrivals(self._fields, call.arguments[:1], selection)
        return self._arrivals[key]

    def _bag(
        self, order: Sequence[SortKey], names: Sequence[str], alone: Selection | None = None
    ) -> Bag:
        key = (tuple(order), tuple(names), *([alone] if alone else []))
        if key not in self._bags:
            self._bags[key] = Bag(self._fields, order, names)
        return self._bags[key]

    # --- Columns ----------------------------------------------------------------------------------

    def _selection(self, call: AggregateCall) -> Selection:
        required = call.arguments[required_arguments(call)]
        if call.function == "count_if":
            required = ()
        return Selection(call.filter, tuple(n for n in required if self._fields[n].type.nullable))

    def _nullable(self, call: AggregateCall) -> bool:
        return any(self._fields[name].type.nullable for name in call.arguments)

    def _types(self, names: Sequence[str]) -> list[pa.DataType]:
        return [self._fields[name].type.arrow for name in names]


def _counts_once(call: AggregateCall) -> bool:
    """Whether a call takes equal values once because DISTINCT says so."""
    return call.distinct and not facts(call.function).same_if_distinct


def _taken_by(call: AggregateCall) -> tuple[Any, ...]:
    """Give what calls have in common that take the same values."""
    return call.arguments, call.filter, _counts_once(call)


def _direct(selection: Selection, names: Sequence[str]) -> Take:
    """Take the changes themselves."""

    def take(groups: Groups) -> Taken:
        return groups.once((selection, tuple(names)), lambda: taken(groups))

    def taken(groups: Groups) -> Taken:
        mask = selection.of(groups)
        columns = groups.changes.columns(names)
        if mask is None:
            return Taken(groups.of_row, groups.signs, tuple(columns))
        rows = np.flatnonzero(mask)
        arguments = tuple(column.take(rows) for column in columns)
        return Taken(groups.of_row[rows], groups.signs[rows], arguments)

    return take


def _coming_and_going(view: BagView, names: Sequence[str]) -> Take:
    """Take the values that come to a bag, and those that leave it."""

    def take(groups: Groups) -> Taken:
        moved = view.moved(groups)
        came, went = moved.came, moved.went
        rows = np.concatenate([came, went])
        signs = np.repeat(np.array([1, -1]), [len(came), len(went)])
        arguments = tuple(moved.columns[name].take(rows) for name in names)
        return Taken(moved.groups[rows], signs, arguments)

    return take


# --- Results --------------------------------------------------------------------------------------


def _first(states: Columns, rows: np.ndarray, groups: Groups) -> pa.Array:
    return states[0]


def _second(states: Columns, rows: np.ndarray, groups: Groups) -> pa.Array:
    return states[1]


def _count_rows(states: Columns, rows: np.ndarray, groups: Groups) -> pa.Array:
    return pa.array(rows)


def _count(states: Columns, rows: np.ndarray, groups: Groups) -> pa.Array:
    return pc.fill_null(states[0], 0)


def _valued(states: Columns, rows: np.ndarray, groups: Groups) -> pa.Array:
    """Give a value where there were any."""
    some = pc.greater(pc.fill_null(states[1], 0), 0)
    return pc.if_else(some, states[0], pa.scalar(None, states[0].type))


def _all_true(states: Columns, rows: np.ndarray, groups: Groups) -> pa.Array:
    trues, count = integers(states[0]), integers(states[1])
    return pa.array(trues == count, mask=count == 0)


def _any_true(states: Columns, rows: np.ndarray, groups: Groups) -> pa.Array:
    return pa.array(integers(states[0]) > 0, mask=integers(states[1]) == 0)


def _chooses_row(call: AggregateCall) -> bool:
    """Whether a call gives the value of a row that is not the least or greatest value itself."""
    known = facts(call.function)
    return known.is_place or (known.is_end and len(call.arguments) > 1)


def _finish_appended(call: AggregateCall) -> Finish:
    if facts(call.function).collects:
        return lambda states, rows, groups: Collected.result(call, states[0])
    return _second if _chooses_row(call) else _first


def _finish_wrapped(call: AggregateCall) -> Finish:
    def finish(states: Columns, rows: np.ndarray, groups: Groups) -> pa.Array:
        count = integers(states[1])
        total = pa.array(integers(states[0]), mask=count == 0)
        if facts(call.function).is_mean:
            return means(call, total, count)
        return wrapped(total, call.type)

    return finish


def _finish_floats(call: AggregateCall) -> Finish:
    def finish(states: Columns, rows: np.ndarray, groups: Groups) -> pa.Array:
        total, count = Floats.total(states)
        if facts(call.function).is_mean:
            return means(call, pa.array(total), count)
        return pa.array(total, mask=count == 0).cast(call.type.arrow, safe=False)

    return finish


def _finish_exact(call: AggregateCall) -> Finish:
    kind = call.type.arrow

    def finish(states: Columns, rows: np.ndarray, groups: Groups) -> pa.Array:
        total, *beyond, counted = states
        if beyond:
            total = _within(call, total, integers(beyond[0]), groups)
        count = integers(counted)
        total = _valued([total, counted], rows, groups)
        if facts(call.function).is_mean:
            return means(call, total, np.where(np.asarray(total.is_null()), 0, count))
        if total.type == kind:
            return total
        try:
            return total.cast(kind)
        except pa.ArrowInvalid:
            return _narrowed(call, total, groups)

    return finish


def _within(call: AggregateCall, rest: pa.Array, beside: np.ndarray, groups: Groups) -> pa.Array:
    """Give sums of 38 digits; longer ones are NULL, or refused where the call does not try."""
    if not beside.any():
        return rest
    if not facts(call.function).tries:
        group = int(np.argmax(beside != 0))
        scale = rest.type.scale
        total = int(beside[group]) * 10**38 + unscaled(rest[group].as_py(), scale)
        raise unfit_sum(call, total, scale, groups.describe(group))
    return pc.if_else(pa.array(beside == 0), rest, pa.scalar(None, rest.type))


def _narrowed(call: AggregateCall, total: pa.Array, groups: Groups) -> pa.Array:
    """Refuse the first sum that does not fit its type; of ``try_sum`` make such sums NULL."""
    scale = total.type.scale
    digits = (call.type.precision or 0) - (call.type.scale or 0)
    high = 10**digits if call.type.root == "DECIMAL" else 1 << 63
    low = -high if call.type.root == "DECIMAL" else -high - 1
    wide = pa.decimal256(76, scale)
    ends = [pa.scalar(Decimal(end), pa.decimal256(76, 0)).cast(wide) for end in (low, high)]
    exact = total.cast(wide)
    outside = pc.or_(pc.less_equal(exact, ends[0]), pc.greater_equal(exact, ends[1]))
    over = np.asarray(pc.fill_null(outside, False))
    if facts(call.function).tries:
        fitting = pc.if_else(pa.array(over), pa.scalar(None, total.type), total)
        return fitting.cast(call.type.arrow)
    group = int(np.argmax(over))
    digits_of_total = unscaled(total[group].as_py(), scale)
    keys = groups.describe(group)
    raise unfit(call.function, call.arguments, str(call.type), digits_of_total, scale, keys)


def _finish_spread(call: AggregateCall) -> Finish:
    name = call.function
    sample = name.endswith("_samp")

    def finish(states: Columns, rows: np.ndarray, groups: Groups) -> pa.Array:
        counts, xx, xy, yy = Moments.spreads(states)
        with np.errstate(all="ignore"):
            if name == "corr":
                values = xy / np.sqrt(xx * yy)
                return pa.array(values, mask=(counts < 2) | (xx * yy == 0))
            spread = xy if name.startswith("covar") else xx
            values = spread / (counts - sample)
            values = np.sqrt(values) if name.startswith("stddev") else values
        return pa.array(values, mask=counts <= sample)

    return finish


class Fold(Calls):
    """Keeps what the aggregates of a node are computed of; those that keep the same share it.

    Attributes:
        columns: what the state has of a group beside its keys and its number of rows.

    Args:
        retracts: whether rows are taken out again.
    """

    def __init__(self, node: Aggregate, *, retracts: bool) -> None:
        super().__init__(node.input.fields, node.aggregates, retracts=retracts)
        self._names = [name for name, _ in node.aggregates]
        kept = {id(part): part for each in self.computed for part in each.parts}
        self._accumulators = list(kept.values())
        self.columns = [
            pa.field(f"{self._owner(place)}_{name}", kind)
            for place, each in enumerate(self._accumulators)
            for name, kind in each.columns
        ]
        ends = [0, *accumulate(len(each.columns) for each in self._accumulators)]
        self._places = {
            id(each): slice(start, end)
            for each, start, end in zip(self._accumulators, ends, ends[1:], strict=False)
        }

    def _owner(self, place: int) -> str:
        """Name the first aggregate that reads an accumulator."""
        part = self._accumulators[place]
        calls = zip(self._names, self.computed, strict=True)
        return next(name for name, each in calls if any(part is own for own in each.parts))

    def advance(self, before: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        """Take the changes of groups.

        Args:
            before: `columns`, a row a group; NULL for groups that are new.

        Returns:
            the same afterwards.
        """
        after: list[pa.Array] = []
        for each in self._accumulators:
            after += each.advance(before[self._places[id(each)]], groups)
        return after

    def results(self, kept: Sequence[pa.Array], rows: np.ndarray, groups: Groups) -> list[pa.Array]:
        """Give the aggregates of groups.

        Args:
            kept: `columns`, a row a group.
            rows: int64, how many rows each has.
        """
        return [
            call.finish(
                [each for part in call.parts for each in kept[self._places[id(part)]]], rows, groups
            )
            for call in self.computed
        ]

    def mergeable(self, kept: Sequence[pa.Array]) -> tuple[list[Numbers], Restored]:
        """Give what is kept as numbers that can be merged, and how to make columns of merged ones.

        Args:
            kept: `columns`, a row a group.
        """
        made = [each.mergeable(kept[self._places[id(each)]]) for each in self._accumulators]
        ends = [0, *accumulate(len(numbers) for numbers, _ in made)]

        def restored(merged: Sequence[np.ndarray]) -> list[pa.Array]:
            pairs = zip(made, ends, ends[1:], strict=False)
            return [each for (_, own), low, high in pairs for each in own(merged[low:high])]

        return [each for numbers, _ in made for each in numbers], restored
