"""Nodes that physical plans add: they bring changes together, complete and check them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pkray.relational.plan import describe
from pkray.relational.plan.cached_value import cached_value
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.node import ALL, Key, Keys, Kinds, Node, OneInput, Passing, State
from pkray.schema.types import DataType


@dataclass(frozen=True)
class Exchange(Passing):
    """Brings rows of equal keys together; without keys, all rows to one place."""

    keys: tuple[str, ...]

    def described(self) -> list[tuple[str, str]]:
        keys = f"hash[{describe.names(self.keys)}]" if self.keys else "single"
        return [("distribution", keys)]

    def placed_by(self) -> Key:
        return frozenset(self.keys)


@dataclass(frozen=True)
class Normalize(OneInput):
    """Completes a changelog by key: repeats vanish, updates and deletes get their old rows."""

    keys: tuple[str, ...]

    def described(self) -> list[tuple[str, str]]:
        return [("key", describe.names(self.keys))]

    def keys_from(self, keys_of: Callable[[Node], Keys]) -> Keys:
        return frozenset({frozenset(self.keys)})

    def kinds_from(self, inputs: tuple[Kinds, ...]) -> Kinds:
        return ALL

    def needs_before(self, index: int, above: bool) -> bool:
        return False

    def states(self) -> tuple[State, ...]:
        return (State("changelogNormalizeState", "fold", self.keys, "keys of the source"),)


ROW_KEY = "_row_key"
"""The column that is the key of results whose rows have none."""


@dataclass(frozen=True)
class RowKey(OneInput):
    """Adds a first column, BYTES, that tells rows apart: the key of a table of the result.

    Attributes:
        keys: a unique key, whose columns may be NULL; without it the row as a whole counts, with a
            number for each of equal rows.
        name: of the column.
    """

    keys: tuple[str, ...]
    name: str = ROW_KEY

    @cached_value
    def fields(self) -> Fields:
        return Fields((Field(self.name, DataType("BYTES", nullable=False)), *self.input.fields))

    def described(self) -> list[tuple[str, str]]:
        key = describe.names(self.keys) or "the row and its number"
        return [("column", self.name), ("key", key)]

    def keys_from(self, keys_of: Callable[[Node], Keys]) -> Keys:
        return frozenset({frozenset({self.name})}) | keys_of(self.input)

    def needs_before(self, index: int, above: bool) -> bool:
        return above or not self.keys

    def states(self) -> tuple[State, ...]:
        if self.keys:
            return ()
        return (State("rowKeyState", "fold", self.input.fields.names, "distinct rows"),)

    def keyed_columns(self) -> Iterator[Fields]:
        return iter([self.input.fields.only(self.keys)]) if self.keys else super().keyed_columns()

    def passes_in_time(self, column: str) -> bool:
        return self.input.comes_in_time(column)

    def exchanged(self) -> Node:
        if self.keys:
            return self
        return self.with_inputs(Exchange(self.input, self.input.fields.names))


@dataclass(frozen=True)
class Unique(OneInput):
    """Fails where two rows agree in the keys at the end of an epoch."""

    keys: tuple[str, ...]

    def described(self) -> list[tuple[str, str]]:
        return [("key", describe.names(self.keys))]

    def keys_from(self, keys_of: Callable[[Node], Keys]) -> Keys:
        return frozenset({frozenset(self.keys)}) | keys_of(self.input)

    def states(self) -> tuple[State, ...]:
        return (State("uniqueState", "ordered", self.keys, "rows"),)

    def exchanged(self) -> Node:
        return self.with_inputs(Exchange(self.input, self.keys))


@dataclass(frozen=True)
class Sink(OneInput):
    """Writes to a table.

    Attributes:
        table: its full name.
        target: columns of the table, in the order of the input's.
        on_conflict: ``error``, ``nothing`` or ``deduplicate``; None: not said.
    """

    table: str
    target: tuple[str, ...]
    on_conflict: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    def described(self) -> list[tuple[str, str]]:
        return [
            ("table", self.table),
            ("fields", describe.names(self.target)),
            ("onConflict", self.on_conflict or ""),
        ]

    def needs_before(self, index: int, above: bool) -> bool:
        return above


def without_bounds(node: Node, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out the bounds of windows: rows of one key stay in one place for all windows."""
    bounds = node.window_bounds()
    if bounds is None or not bounds.are_in(keys):
        return keys
    return tuple(key for key in keys if key not in bounds.start | bounds.end)


def are_of_windows(node: Node, keys: tuple[str, ...]) -> bool:
    """Whether rows of a node that agree in the keys are of one window."""
    bounds = node.window_bounds()
    return bounds is not None and bounds.are_in(keys)


def open_windows(name: str, keys: tuple[str, ...]) -> State:
    return State(name, "ordered", keys, "open windows", "watermark")
