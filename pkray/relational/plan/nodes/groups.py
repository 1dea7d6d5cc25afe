"""Nodes that make groups of rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pkray.relational.plan import describe
from pkray.relational.plan import node as n
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.cached_value import cached_value
from pkray.relational.plan.changelog_modes import change_kinds
from pkray.relational.plan.expressions import AggregateCall
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.nodes import changes
from pkray.relational.plan.nodes.rows import Filter, Project
from pkray.relational.plan.nodes.windows import Slices, Window, WindowKind

COUNTED = "$counted"
"""The column that says of a row whether it counts: of totals over no rows."""


@dataclass(frozen=True)
class Aggregate(n.OneInput):
    """Gives a row a group: its keys, then its aggregates. Without keys, always one row.

    NULL is a group. Keys of floating type are compared by bits, NaNs being equal: where 0.0 and
    -0.0 are one group the binder has normalized them.

    Attributes:
        slices: of physical plans: the windows that are aggregated where the input's are slices.
    """

    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, AggregateCall], ...]
    slices: Slices | None = field(default=None, metadata={n.IF_SET: True})

    @cached_value
    def fields(self) -> Fields:
        keys = self.input.fields.only(self.keys)
        return keys + Fields(tuple(Field(name, call.type) for name, call in self.aggregates))

    def columns_read(self) -> tuple[str, ...]:
        """List the input's columns that it reads: its keys, then those of its aggregates."""
        read = (name for _, call in self.aggregates for name in call.columns())
        return tuple(dict.fromkeys((*self.keys, *read)))

    def described(self) -> list[tuple[str, str]]:
        calls = ", ".join(f"{describe.aggregate(call)} AS {name}" for name, call in self.aggregates)
        slices = self.slices
        windows = [("windows", str(slices.kind)), *describe.spans(slices)] if slices else []
        return [("groupBy", describe.names(self.keys)), ("select", calls), *windows]

    def keys_from(self, keys_of: Callable[[n.Node], n.Keys]) -> n.Keys:
        inherited = (key for key in keys_of(self.input) if key <= set(self.keys))
        return frozenset({frozenset(self.keys), *inherited})

    def kinds_from(self, inputs: tuple[n.Kinds, ...]) -> n.Kinds:
        if self.is_windowed() and not self.updates_windows():
            return n.INSERT
        return n.INSERT | {"U"} if inputs[0] == n.INSERT else n.ALL

    def states(self) -> tuple[n.State, ...]:
        if self.is_windowed():
            return (changes.open_windows("windowAggregateState", self.keys),)
        values = any(call.distinct or self._keeps_values(call) for _, call in self.aggregates)
        grows = "groups and their distinct values" if values else "groups"
        grows = grows if self.keys else "one row"
        return (n.State("groupAggregateState", "fold", self.keys, grows),)

    def _keeps_values(self, call: AggregateCall) -> bool:
        known = facts(call.function)
        return known.needs_all or ("D" in change_kinds(self.input) and not known.takes_back)

    def keyed_columns(self) -> Iterator[Fields]:
        calls = [c for _, c in self.aggregates if c.distinct or self._keeps_values(c)]
        ordered = (key.column for call in calls for key in call.order_by)
        values = (name for call in calls for name in call.arguments)
        yield self.input.fields.only(dict.fromkeys((*self.keys, *values, *ordered)))

    def window_bounds(self) -> n.WindowBounds | None:
        bounds = self.input.window_bounds()
        return bounds and bounds.kept(self.keys)

    def is_windowed(self) -> bool:
        return changes.are_of_windows(self.input, self.keys)

    def exchanged(self) -> n.Node:
        keys = changes.without_bounds(self.input, self.keys)
        if _are_sessions_of(self.input, keys):
            return self
        return self.with_inputs(changes.Exchange(self.input, keys))

    def remarks(self) -> Iterator[n.Lint]:
        retracts = change_kinds(self.input) != n.INSERT
        for name, call in self.aggregates:
            known = facts(call.function)
            if known.by_arrival and not call.order_by:
                yield n.Lint("not-exact", f"{name} depends on the order of arrival")
            if retracts and known.sums and self._adds_floats(call):
                text = f"{name} sums floating numbers: equal within rounding only"
                yield n.Lint("not-exact", text)
        if self.lacks_row():
            text = "a global aggregate over no rows gives no row before its first"
            yield n.Lint("not-exact", text)

    def _adds_floats(self, call: AggregateCall) -> bool:
        return self.input.fields[call.arguments[0]].type.root in ("FLOAT", "DOUBLE")

    def lacks_row(self) -> bool:
        """Whether it gives no row before its first one."""
        return not self.keys and not self.is_windowed() and COUNTED not in self.input.fields


@dataclass(frozen=True)
class Distinct(n.OneInput):
    """Keeps one of equal rows; NULLs are equal."""

    def keys_from(self, keys_of: Callable[[n.Node], n.Keys]) -> n.Keys:
        return frozenset({frozenset(self.fields.names)}) | keys_of(self.input)

    def kinds_from(self, inputs: tuple[n.Kinds, ...]) -> n.Kinds:
        return n.INSERT if inputs[0] == n.INSERT else n.ALL

    def states(self) -> tuple[n.State, ...]:
        return (n.State("distinctState", "fold", self.fields.names, "distinct rows"),)

    def passes_in_time(self, column: str) -> bool:
        return self.input.comes_in_time(column)

    def exchanged(self) -> n.Node:
        return self.with_inputs(changes.Exchange(self.input, self.fields.names))


def _are_sessions_of(node: n.Node, keys: tuple[str, ...]) -> bool:
    """Whether rows come in sessions of just these keys, for which they were brought together."""
    while isinstance(node, Project | Filter):
        node = node.input
    if not isinstance(node, Window) or node.kind is not WindowKind.SESSION:
        return False
    return set(node.partition_by) == set(keys)
