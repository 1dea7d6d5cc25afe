"""Nodes that look at one row at a time."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from pkray.relational.plan import describe
from pkray.relational.plan import node as n
from pkray.relational.plan.cached_value import cached_value
from pkray.relational.plan.expressions import TRUE, Call, Cast, ColumnRef, Expression
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.keys import injective_source, upsert_keys
from pkray.schema.types import DataType

BIGINT = DataType("BIGINT", nullable=False)
UPDATES = "UPDATES"
"""The hint on a table by which OVER gives its rows at once, and changes them as others come."""
_NOW = ("current_timestamp", "localtimestamp")


def _needs_before(condition: Expression, below: n.Node) -> bool:
    """Whether an update may leave what a filter keeps, unless the filter reads the key alone."""
    read = condition.columns()
    return bool(read) and not any(read <= key for key in upsert_keys(below))


@dataclass(frozen=True)
class Filter(n.Passing):
    """Keeps rows for which a condition is true."""

    condition: Expression

    computes = ("condition",)

    def described(self) -> list[tuple[str, str]]:
        return [("where", describe.text_of(self.condition))]

    def needs_before(self, index: int, above: bool) -> bool:
        return above or _needs_before(self.condition, self.input)


@dataclass(frozen=True)
class Project(n.Passing):
    """Computes columns.

    Attributes:
        columns: (name, expression) pairs; names are distinct.
    """

    columns: tuple[tuple[str, Expression], ...]

    @cached_value
    def fields(self) -> Fields:
        return Fields(tuple(self._field(name, value) for name, value in self.columns))

    def _field(self, name: str, value: Expression) -> Field:
        rowtime = isinstance(value, ColumnRef) and self.input.fields[value.name].is_rowtime
        return Field(name, value.type, rowtime)

    def expressions(self) -> tuple[Expression, ...]:
        return tuple(value for _, value in self.columns)

    def with_expressions(self, change: Callable[[Expression], Expression]) -> n.Node:
        columns = tuple((name, change(value)) for name, value in self.columns)
        pairs = zip(columns, self.columns, strict=True)
        same = all(new is old for (_, new), (_, old) in pairs)
        return self if same else replace(self, columns=columns)

    def described(self) -> list[tuple[str, str]]:
        return [("select", ", ".join(describe.column(*each) for each in self.columns))]

    def keys_from(self, keys_of: Callable[[n.Node], n.Keys]) -> n.Keys:
        names: dict[str, list[str]] = {}
        for name, value in self.columns:
            source = injective_source(value)
            if source is not None:
                names.setdefault(source, []).append(name)
        return frozenset(
            frozenset(chosen)
            for key in keys_of(self.input)
            if all(column in names for column in key)
            for chosen in product(*(names[column] for column in key))
        )

    def window_bounds(self) -> n.WindowBounds | None:
        bounds = self.input.window_bounds()
        if bounds is None:
            return None
        named = [(value.name, name) for name, value in self.columns if isinstance(value, ColumnRef)]
        found = bounds.renamed(
            lambda columns: frozenset(name for source, name in named if source in columns)
        )
        return found if found.start and found.end else None

    def passes_in_time(self, column: str) -> bool:
        value = dict(self.columns)[column]
        return isinstance(value, ColumnRef) and self.input.comes_in_time(value.name)


@dataclass(frozen=True)
class Calc(Project):
    """Computes columns of the rows for which a condition is true: a Filter and a Project in one."""

    condition: Expression = TRUE

    def expressions(self) -> tuple[Expression, ...]:
        return (*super().expressions(), self.condition)

    def with_expressions(self, change: Callable[[Expression], Expression]) -> n.Node:
        computed, condition = super().with_expressions(change), change(self.condition)
        same = condition is self.condition
        return computed if same else replace(computed, condition=condition)  # type: ignore[call-arg]

    def described(self) -> list[tuple[str, str]]:
        return [*super().described(), ("where", describe.condition(self.condition))]

    def needs_before(self, index: int, above: bool) -> bool:
        return above or _needs_before(self.condition, self.input)


@dataclass(frozen=True)
class Expand(n.Passing):
    """Repeats each row once a grouping set, with NULL in the `keys` that the set leaves out.

    Gives the input's columns (those in `keys` nullable) and `id_name`, the BIGINT that
    GROUPING_ID gives: bit i from the right is set where the i-th key from the right is left out;
    `number_name` if there are equal sets: which of them, as INT.

    Attributes:
        sets: a set a repetition, as positions in `keys`.
    """

    keys: tuple[str, ...]
    sets: tuple[tuple[int, ...], ...]
    id_name: str
    number_name: str | None = None

    @cached_value
    def fields(self) -> Fields:
        columns = [
            replace(column, type=column.type.with_nullable(True))
            if column.name in self.keys
            else column
            for column in self.input.fields
        ]
        columns.append(Field(self.id_name, BIGINT))
        if self.number_name:
            columns.append(Field(self.number_name, DataType("INT", nullable=False)))
        return Fields(tuple(columns))

    def described(self) -> list[tuple[str, str]]:
        sets = (describe.names(tuple(self.keys[index] for index in each)) for each in self.sets)
        return [("sets", ", ".join(f"({each})" for each in sets)), ("id", self.id_name)]

    def keys_from(self, keys_of: Callable[[n.Node], n.Keys]) -> n.Keys:
        added = {self.number_name or self.id_name}
        kept = (key for key in keys_of(self.input) if not key & set(self.keys))
        return frozenset(key | added for key in kept)

    def keys_in_all_sets(self) -> tuple[str, ...]:
        """List the keys that no grouping set leaves out: others are NULL in some rows."""
        places = set(range(len(self.keys))).intersection(*self.sets)
        return tuple(self.keys[place] for place in places)

    def window_bounds(self) -> n.WindowBounds | None:
        bounds = self.input.window_bounds()
        others = (name for name in self.input.fields.names if name not in self.keys)
        return bounds and bounds.kept((*others, *self.keys_in_all_sets()))


@dataclass(frozen=True)
class Unnest(n.Passing):
    """Gives a row for each row that a table function makes of a row.

    Attributes:
        function: ``explode`` (an ARRAY's elements; a MAP's keys and values), ``posexplode``,
            ``inline`` (an ARRAY of ROWs), ``sequence_rows``, or ``udtf``.
        arguments: columns of the input.
        names: of the columns that it adds.
        types: of the columns that it adds.
        outer: whether rows that it makes nothing of come out once with NULLs.
        udf: for ``udtf``, a `pkray.relational.functions.user_functions.UserFunction`.
        keeps: the input's columns that come out; None: all. Without the array itself a row of n
            elements costs n, with it n times n.
    """

    function: str
    arguments: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[DataType, ...]
    outer: bool = False
    udf: Any = None
    keeps: tuple[str, ...] | None = field(default=None, metadata={n.IF_SET: True})

    @cached_value
    def fields(self) -> Fields:
        added = zip(self.names, self.types, strict=True)
        below = self.input.fields
        return (below if self.keeps is None else below.only(self.keeps)) + Fields(
            tuple(
                Field(name, kind.with_nullable(kind.nullable or self.outer)) for name, kind in added
            )
        )

    def described(self) -> list[tuple[str, str]]:
        call = f"{self.function}({describe.names(self.arguments)})"
        outer = "true" if self.outer else ""
        return [("call", call), ("as", describe.names(self.names)), ("outer", outer)]

    def check_lengths(self) -> None:
        n.check_as_many("names", self.names, "types", self.types)

    def keys_from(self, keys_of: Callable[[n.Node], n.Keys]) -> n.Keys:
        if self.function != "posexplode":
            return n.NO_KEYS
        there = frozenset(self.fields.names)
        return frozenset(key | {self.names[0]} for key in keys_of(self.input) if key <= there)

    def window_bounds(self) -> n.WindowBounds | None:
        return None


@dataclass(frozen=True)
class Hint(n.Passing):
    """Says something about its input that changes no row: STATE_TTL and the like.

    Attributes:
        options: sorted pairs.
    """

    name: str
    options: tuple[tuple[str, str], ...]

    def described(self) -> list[tuple[str, str]]:
        return [("name", self.name), *self.options]

    def asks_for_updates(self) -> bool:
        """Whether it asks for rows that come at once and change."""
        return self.name.upper() == UPDATES and dict(self.options).get("updates") == "true"

    def passes_in_time(self, column: str) -> bool:
        return not self.asks_for_updates() and self.input.comes_in_time(column)


@dataclass(frozen=True)
class WatermarkAssign(n.Passing):
    """Declares that watermarks follow a column.

    Attributes:
        delay: an expression of the input's columns that gives the watermark.
    """

    time: str
    delay: Expression

    @cached_value
    def fields(self) -> Fields:
        return Fields(
            tuple(
                replace(column, is_rowtime=column.name == self.time) for column in self.input.fields
            )
        )

    computes = ("delay",)

    def described(self) -> list[tuple[str, str]]:
        return [("rowtime", self.time), ("watermark", describe.text_of(self.delay))]

    def window_bounds(self) -> n.WindowBounds | None:
        return None

    def passes_in_time(self, column: str) -> bool:
        return self.time == column


def origin_of(node: n.Node, column: str) -> tuple[n.Node, str | Expression]:
    """Find where a column of a node comes from, through renames, casts and what has one input.

    Returns:
        the node that computes the column and by what; or the lowest node that has it, and its name
        there.
    """
    while True:
        if isinstance(node, Project):
            value = dict(node.columns)[column]
            while isinstance(value, Cast):
                value = value.operand
            if not isinstance(value, ColumnRef):
                return node, value
            column = value.name
        if len(node.inputs) != 1 or column not in node.inputs[0].fields:
            return node, column
        (node,) = node.inputs


def is_now(node: n.Node, column: str) -> bool:
    """Whether a column holds the time at which its row is handled."""
    _, value = origin_of(node, column)
    return isinstance(value, Call) and value.function in _NOW
