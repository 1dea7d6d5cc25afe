"""Aggregates, computed in part before a join whose keys say which rows have the same matches.

::

    sum(x) by name            sum($p) by name
          │                         │
       join on k     ──▶         join on k ───────────┐
        │      │                    │                 │
      facts  names         $p = sum(x) by k         names
                                    │
                                  facts

Rows of one group of the side's join keys meet the same rows of the other side, so that what is
summed before is summed as often. A part is computed of rows that may meet none: only what cannot
fail, nor overflow before the whole does, is computed in parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.coercion import BIGINT, DOUBLE
from pkray.relational.functions.evaluation.programs import can_fail
from pkray.relational.optimizer.estimates import Estimates
from pkray.relational.optimizer.expressions import is_deterministic, renamed, retyped
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.expressions import AggregateCall, Cast, ColumnRef, Expression, Literal
from pkray.relational.plan.fields import distinct_names
from pkray.relational.plan.nodes import Aggregate, Join, JoinKind, Node, Project
from pkray.schema.types import INTEGERS, DataType

FEWER = 8
"""A side is grouped before it is joined if so many of its rows, at least, become one."""

COUNT = BIGINT.with_nullable(False)
_SURE_DIGITS = 28
"""DECIMAL sums have ten digits more: 10^10 rows cannot overflow them, whatever their signs."""

_FLOATS = ("FLOAT", "DOUBLE")


def group_early(plan: Node) -> Node:
    """Group a side of a join before it is joined, where estimates say that it makes rows fewer."""
    return _grouped(plan, Estimates())


def _grouped(plan: Node, known: Estimates) -> Node:
    if isinstance(plan, Aggregate):
        for early in _candidates(plan):
            if early.pays(known):
                plan = early.plan()
                break
    return plan.map_inputs(lambda each: _grouped(each, known))


def _candidates(node: Aggregate) -> Iterator[_Early]:
    below: Node = node.input
    values: dict[str, Expression] = dict(below.fields.refs)
    if type(below) is Project:
        values = dict(below.columns)
        below = below.input
    if not isinstance(below, Join) or below.kind not in (JoinKind.INNER, JoinKind.LEFT):
        return
    if not below.left_keys or not all(_has_parts(call) for _, call in node.aggregates):
        return
    sides = (below.left.fields.names, below.right_names)
    for place, names in enumerate(sides):
        early = _Early(node, below, values, place, frozenset(names))
        if early.is_possible() and early.plan().fields == node.fields:
            yield early


def _has_parts(call: AggregateCall) -> bool:
    """Whether a call can be put together of parts, exactly."""
    known = facts(call.function)
    if not known.parts or call.filter or call.order_by or len(call.arguments) > 1:
        return False
    return not call.distinct or known.same_if_distinct


@dataclass(frozen=True)
class _Early:
    """An aggregate, one side of the join below it, and what that side has to give.

    Attributes:
        values: of the columns that the aggregate reads, over the join's columns.
        place: of the side: 0 is left.
        names: that the join gives the side's columns.
    """

    node: Aggregate
    join: Join
    values: Mapping[str, Expression]
    place: int
    names: frozenset[str]

    @property
    def side(self) -> Node:
        return self.join.inputs[self.place]

    def is_possible(self) -> bool:
        """Whether all aggregates are of this side, and can be computed in parts there."""
        return all(self._is_sure(call) for _, call in self.node.aggregates)

    def _is_sure(self, call: AggregateCall) -> bool:
        if not call.arguments:
            return True
        value = self.values[call.arguments[0]]
        kind = _as_it_was(value).type
        if not value.columns() or not value.columns() <= self.names or kind.is_nested:
            return False
        if can_fail(value) or not is_deterministic(value):
            return False
        match call.function:
            case "sum" | "avg" if kind.root in ("TINYINT", "SMALLINT", "INT"):
                return call.type.root == ("BIGINT" if call.function == "sum" else "DOUBLE")
            case "sum" | "avg" if kind.root in _FLOATS:
                return call.type.root == "DOUBLE"
            case "sum" if kind.root == "DECIMAL":
                digits, most = kind.precision or 0, call.type.precision or 0
                return digits <= _SURE_DIGITS and most >= digits + 10
            case "sum" | "avg":
                return False
        return True

    def pays(self, known: Estimates) -> bool:
        """Whether the groups are known to be far fewer than the rows."""
        groups, side = 1.0, self.side
        for name in self._keys():
            if not known.knows(side, name):
                return False
            groups *= known.distinct(side, name)
        return groups * FEWER <= known.rows(side)

    def _keys(self) -> tuple[str, ...]:
        """List the columns that say what a row meets, and in which group it is; the side's own."""
        keys = (self.join.left_keys, self.join.right_keys)[self.place]
        above = set(self.join.condition.columns())
        for key in self.node.keys:
            above |= self.values[key].columns()
        needed = set(keys) | {self._own[name] for name in above & self.names}
        return tuple(name for name in self.side.fields.names if name in needed)

    @property
    def _own(self) -> dict[str, str]:
        """Give the side's names of its columns by the join's."""
        if self.place == 0:
            return {name: name for name in self.names}
        return dict(zip(self.join.right_names, self.side.fields.names, strict=True))

    def plan(self) -> Node:
        """Group the side, join the groups, and put the parts together."""
        parts = list(self._parts())
        taken = [*self.join.left.fields.names, *self.join.right_names, *self.side.fields.names]
        names = list(distinct_names(["$p"] * len(parts), taken))
        fields, keys = self.side.fields, self._keys()
        columns: dict[str, Expression] = {name: fields.ref(name) for name in keys}
        calls = []
        for name, (call, function_name) in zip(names, parts, strict=True):
            argument = () if not call.arguments else (f"{name}a",)
            for each in argument:
                value = renamed(self.values[call.arguments[0]], self._own)
                columns[each] = retyped(value, self.side)
            calls.append((name, AggregateCall(function_name, argument, _part(call, function_name))))
        groups = Aggregate(Project(self.side, tuple(columns.items())), keys, tuple(calls))
        return self._whole(self._joined(groups, names), names, parts)

    def _parts(self) -> Iterator[tuple[AggregateCall, str]]:
        for _, call in self.node.aggregates:
            for each in facts(call.function).parts:
                yield call, each

    def _joined(self, groups: Aggregate, names: Iterable[str]) -> Join:
        if self.place == 0:
            return replace(self.join, left=groups)
        given = {own: name for name, own in self._own.items()}
        right_names = (*(given[key] for key in groups.keys), *names)
        return replace(self.join, right=groups, right_names=right_names)

    def _whole(self, join: Join, names: list[str], parts: list[tuple[AggregateCall, str]]) -> Node:
        columns = {key: retyped(self.values[key], join) for key in self.node.keys}
        calls = []
        for name, (call, part) in zip(names, parts, strict=True):
            value: Expression = join.fields.ref(name)
            if not call.arguments and value.type.nullable:  # a row without a match is one row
                value = _or(value, 1)
            columns[name] = value
            calls.append(
                (name, AggregateCall(facts(part).total or part, (name,), _total(call, part)))
            )
        whole = Aggregate(Project(join, tuple(columns.items())), self.node.keys, tuple(calls))
        given = dict(whole.fields.only(self.node.keys).refs)
        left = iter(names)
        results: dict[str, Expression] = dict(given)
        for name, call in self.node.aggregates:
            states = [whole.fields.ref(next(left)) for _ in facts(call.function).parts]
            results[name] = _result(call, states)
        return Project(whole, tuple(results.items()))


def _as_it_was(value: Expression) -> Expression:
    """Leave out casts of integers, and of floats, to wider ones."""
    while isinstance(value, Cast) and any(
        {value.type.root, value.operand.type.root} <= set(family) for family in (INTEGERS, _FLOATS)
    ):
        value = value.operand
    return value


def _part(call: AggregateCall, part: str) -> DataType:
    """Give the type of a part."""
    if part in ("count", "count_if"):
        return COUNT
    return _total(call, part)


def _total(call: AggregateCall, part: str) -> DataType:
    """Give the type of all parts together."""
    if part in ("count", "count_if"):
        return BIGINT
    if call.function == "avg":
        return DOUBLE
    return call.type.with_nullable(True)


def _result(call: AggregateCall, states: list[ColumnRef]) -> Expression:
    if call.function in ("count", "count_if"):
        return _or(states[0], 0)
    if call.function != "avg":
        return states[0]
    total, count = states
    some = function.resolve("nullif", (Cast(DOUBLE, count), Literal(DOUBLE, 0.0)), Dialect.SPARK)
    return function.resolve("divide", (total, some), Dialect.SPARK)


def _or(value: Expression, number: int) -> Expression:
    """Put a number in the place of NULL."""
    return function.resolve("coalesce", (value, Literal(COUNT, number)), Dialect.SPARK)
