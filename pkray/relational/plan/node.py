"""Define what every node answers, and the answers where a kind of node says nothing else.

A kind of node says all that is true of it in its class: what follows from a plan (`keys`,
`changelog_modes`, `state`, `lints`, `describe`, `physical`) asks the nodes and knows no kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

from pkray.relational.plan.cached_value import cached_value
from pkray.relational.plan.expressions import Expression
from pkray.relational.plan.fields import Fields

IF_SET = "if_set"
"""Marks an attribute that plans say only where it is set, as it came after plans were written."""

Key: TypeAlias = frozenset[str]
Keys: TypeAlias = frozenset[Key]
NO_KEYS: Keys = frozenset()

Kinds: TypeAlias = frozenset[str]
"""Kinds of changes: of ``I`` (insert), ``U`` (update) and ``D`` (delete)."""
INSERT: Kinds = frozenset("I")
ALL: Kinds = frozenset("IUD")


@dataclass(frozen=True)
class State:
    """One table of state.

    Attributes:
        name: as compiled plans call it.
        shape: ``fold`` (a value a key), ``ordered`` (rows of a key by their order),
            ``two-sided`` (the rows of one side of a join) or ``source`` (nothing: the rows of a
            side are read from a table).
        key: the columns by which it is kept.
        grows_with: what it has a row for.
        cleaned_by: ``ttl`` or ``watermark``; state that the watermark cleans has no TTL.
    """

    name: str
    shape: str
    key: tuple[str, ...]
    grows_with: str
    cleaned_by: str = "ttl"


@dataclass(frozen=True)
class Lint:
    """One remark on a node.

    Attributes:
        code: ``unbounded-state``, ``not-determined``, ``rewrites`` or ``not-exact``.
        text: what happens and what to do.
    """

    code: str
    text: str


@dataclass(frozen=True)
class WindowBounds:
    """Columns that hold a window's start and end in each row, and its last moment.

    Attributes:
        window: the `Window` node that gives the rows to windows.
    """

    window: Any
    start: frozenset[str]
    end: frozenset[str]
    time: frozenset[str] = frozenset()

    @property
    def columns(self) -> frozenset[str]:
        """List all of them."""
        return self.start | self.end | self.time

    def renamed(self, change: Callable[[frozenset[str]], frozenset[str]]) -> WindowBounds:
        """Give the same bounds in other columns."""
        return WindowBounds(self.window, *map(change, (self.start, self.end, self.time)))

    def are_in(self, columns: tuple[str, ...]) -> bool:
        """Whether rows that agree in the columns are of one window."""
        return bool(self.start & set(columns)) and bool(self.end & set(columns))

    def kept(self, columns: tuple[str, ...]) -> WindowBounds | None:
        """Give the bounds that are among some columns; None where a window has none there."""
        if not self.are_in(columns):
            return None
        return self.renamed(lambda known: known & set(columns))


@dataclass(frozen=True)
class Node:
    """One step of a plan.

    Attributes:
        passes_before: whether it gives the rows before updates wherever it gets them.
        computes: the attributes that are expressions which are computed of each row.
    """

    passes_before: ClassVar[bool] = False
    computes: ClassVar[tuple[str, ...]] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        """List the nodes whose rows this one takes."""
        return ()

    @cached_value
    def fields(self) -> Fields:
        """Give the columns of the rows that come out."""
        raise NotImplementedError

    def with_inputs(self, *inputs: Node) -> Node:
        """Take other inputs, in the order of `inputs`."""
        return self

    def walk(self) -> Iterator[Node]:
        """List this node and all below it, from the top down."""
        yield self
        for node in self.inputs:
            yield from node.walk()

    def transform(self, change: Callable[[Node], Node]) -> Node:
        """Apply `change` to each node, from the bottom up."""
        return change(self.map_inputs(lambda node: node.transform(change)))

    def map_inputs(self, change: Callable[[Node], Node]) -> Node:
        """Apply `change` to each input; give the node itself where none changes."""
        changed = tuple(change(node) for node in self.inputs)
        same = all(new is old for new, old in zip(changed, self.inputs, strict=True))
        return self if same else self.with_inputs(*changed)

    def expressions(self) -> tuple[Expression, ...]:
        """List the expressions that are computed of each row."""
        return tuple(getattr(self, name) for name in self.computes)

    def with_expressions(self, change: Callable[[Expression], Expression]) -> Node:
        """Apply `change` to each of `expressions`; give the node itself where none changes."""
        changed = {name: change(getattr(self, name)) for name in self.computes}
        same = all(value is getattr(self, name) for name, value in changed.items())
        return self if same else replace(self, **changed)

    def described(self) -> list[tuple[str, str]]:
        """Name what it does, as (name, text) pairs; empty texts are left out."""
        return []

    def check_lengths(self) -> None:
        """Check what goes in pairs.

        Raises:
            ValueError: one list is longer than the other.
        """

    def keys_from(self, keys_of: Callable[[Node], Keys]) -> Keys:
        """Work out which columns tell rows apart from those that do in the inputs.

        What changes neither the columns nor the number of rows upwards keeps its input's keys.

        Args:
            keys_of: gives the keys of an input.
        """
        return keys_of(self.inputs[0]) if len(self.inputs) == 1 else NO_KEYS

    def placed_by(self) -> Key:
        """List the columns by which rows are brought together here."""
        return frozenset()

    def kinds_from(self, inputs: tuple[Kinds, ...]) -> Kinds:
        """Work out which changes it gives from those that it takes."""
        return inputs[0]

    def needs_before(self, index: int, above: bool) -> bool:
        """Whether it needs the rows before updates from one of its inputs.

        Most nodes that keep state take the row before an update out of it.

        Args:
            above: whether what takes its own changes needs them.
        """
        return True

    def is_numbered(self) -> bool:
        """Whether it tells of rows number by number: a row may come under one number before it
        goes under another, so that its key alone does not say which row an update takes away.
        """
        return False

    def moves_rows(self) -> bool:
        """Whether a key's new row may come before its old one goes."""
        return self.is_numbered()

    def states(self) -> tuple[State, ...]:
        """List the tables of state that it keeps between epochs, one an input that has any."""
        return ()

    def keyed_columns(self) -> Iterator[Fields]:
        """List the columns whose values keys of states hold, by which rows or values are found."""
        kept = self.states()
        by_key = bool(kept) and all(each.shape == "fold" for each in kept)
        for each in self.inputs if kept else ():
            keys = kept[0].key if by_key else each.fields.names
            yield each.fields.only(name for name in keys if name in each.fields)

    def window_bounds(self) -> WindowBounds | None:
        """Find the windows that its rows belong to; None where they belong to none."""
        return None

    def is_windowed(self) -> bool:
        """Whether it works within windows, so that its state goes when they have fired."""
        return False

    def updates_windows(self) -> bool:
        """Whether it is within windows whose results are to change."""
        bounds = self.inputs[0].window_bounds() if self.is_windowed() else None
        return bounds is not None and bounds.window.is_updated

    def judges_lateness(self) -> bool:
        """Whether it leaves out rows that come after the watermark has passed them."""
        return self.is_windowed()

    def waits_for_time(self) -> bool:
        """Whether it waits for event time."""
        return False

    def comes_in_time(self, column: str) -> bool:
        """Whether a column is event time, and rows come before the watermark passes it.

        Rows that come later, such as those of a regular join where the other side's row comes,
        keep their time, which may be long past.
        """
        if column not in self.fields or not self.fields[column].is_rowtime:
            return False
        if not self.is_windowed():
            return self.passes_in_time(column)
        bounds = self.window_bounds()  # an operator within windows gives at their last moment
        if bounds is None or column not in bounds.time or bounds.window.is_updated:
            return False
        return bounds.window.input.comes_in_time(bounds.window.time)

    def passes_in_time(self, column: str) -> bool:
        """Answer `comes_in_time` of a column that is event time, outside windows."""
        return False

    def exchanged(self) -> Node:
        """Bring together the rows of the inputs that it sees together."""
        return self

    def remarks(self) -> Iterator[Lint]:
        """List what people should know of it before it runs continuously."""
        yield from ()


@dataclass(frozen=True)
class OneInput(Node):
    """Takes rows of one node, and gives its columns unless it says otherwise."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, *inputs: Node) -> Node:
        return replace(self, input=inputs[0])

    @cached_value
    def fields(self) -> Fields:
        return self.input.fields


@dataclass(frozen=True)
class Passing(OneInput):
    """Passes changes on as they come."""

    passes_before = True

    def needs_before(self, index: int, above: bool) -> bool:
        return above

    def window_bounds(self) -> WindowBounds | None:
        return self.input.window_bounds()

    def passes_in_time(self, column: str) -> bool:
        return self.input.comes_in_time(column)


@dataclass(frozen=True)
class TwoInputs(Node):
    """Takes rows of two nodes."""

    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_inputs(self, *inputs: Node) -> Node:
        return replace(self, left=inputs[0], right=inputs[1])


def check_as_many(name: str, each: Sized, other: str, others: Sized) -> None:
    """Check that two lists go in pairs.

    Raises:
        ValueError: one is longer than the other.
    """
    if len(each) != len(others):
        raise ValueError(f"{len(each)} {name} and {len(others)} {other}: as many are needed")
