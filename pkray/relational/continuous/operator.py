"""What an operator is: changes of its inputs and its state become changes and a newer state.

An operator is a pure kernel over Arrow arrays. It is made for one node of a physical plan, opens
the states that it keeps, and is then given the changes of its inputs, epoch by epoch. It knows
nothing of sources, commits, owners or threads. `operates` says for which kind of node it is.

What holds for all of them:

- A retraction (-U, -D) takes away one equal row that was added before; one that finds nothing is
  swallowed, and stops no other change.
- What comes out is in the order of what caused it. A row whose value changes comes as -U and +U,
  one right after the other; where only +U is wanted (``context.mode.before`` is false), -U may be
  left out. A result that did not change does not come out (unless state expires, where it is
  written again).
- Of several changes of a key in one epoch only the net change need come out. What leaves the last
  operator is netted, and a row that takes the place of its key's comes as -U and +U.
- Costs follow the changes, not the rows that are kept; nothing loops over rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from pkray.errors import UnsupportedError
from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.feeds.source_rows import SourceRows
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.continuous.state.state import State, StateSpec
from pkray.relational.dialect import Dialect
from pkray.relational.functions.function import function
from pkray.relational.functions.numbers import chance
from pkray.relational.plan.changelog_modes import INSERT, ChangelogMode, change_kinds, is_now
from pkray.relational.plan.expressions import Call, Cast, ColumnRef, Expression
from pkray.relational.plan.nodes import (
    Aggregate,
    Calc,
    Filter,
    IntervalJoin,
    Join,
    Node,
    Over,
    Project,
    Scan,
    TemporalJoin,
    Values,
    WatermarkAssign,
    Window,
    WindowKind,
)
from pkray.relational.plan.windowing import updates_windows
from pkray.relational.sources.source import Source

OPERATORS: dict[type[Node], list[tuple[Callable[[Any], bool], type[Operator]]]] = {}
"""Of each kind of node, which operators compute it, and under which condition."""

Kind = TypeVar("Kind", bound="type[Operator]")


@dataclass(frozen=True)
class Epoch:
    """What an operator may know of the epoch that it works on; the same when it is run again.

    Attributes:
        number: from 0, which is the backfill.
        time: the processing time, fixed for the epoch: epoch milliseconds.
        arrival: the number of the first row of each input in this call: row i of an input arrived
            as number ``arrival + i``; later calls have greater numbers.
        watermark: event time in microseconds that all sources had passed when the epoch began; None
            before the first.
        next_watermark: what it is at the end of the epoch.
        ends: whether this call is the last one of the epoch.
    """

    number: int
    time: int
    arrival: int = 0
    watermark: int | None = None
    next_watermark: int | None = None
    ends: bool = False


Late: TypeAlias = Callable[[int, Changes, Epoch], None]
RowsOf: TypeAlias = Callable[[Source], SourceRows | None]


def no_rows(source: Source) -> SourceRows | None:
    """Give no rows of any source: operators keep what they need."""
    return None


def forgotten(index: int, changes: Changes, epoch: Epoch) -> None:
    """Forget late changes."""


@dataclass(frozen=True)
class Context:
    """What surrounds an operator.

    Attributes:
        mode: of the changes that it gives.
        inputs: modes of the changes that it is given.
        feeds_state: whether an operator with state takes its changes, at once or further on.
        expires: whether state has a TTL: results are then written again where they did not change.
        open_state: opens a state of this operator.
        rows_of: gives the rows of a source by key; None where it has none to give.
        skip: takes the epoch, a row that cannot be computed and why, and leaves the row out; None:
            such a row stops the query.
        late: takes, of an input by its index, changes that come after the watermark has passed
            their rows, and are left out.
    """

    mode: ChangelogMode
    inputs: tuple[ChangelogMode, ...]
    open_state: Callable[[StateSpec], State]
    expires: bool = False
    feeds_state: bool = False
    rows_of: RowsOf = no_rows
    skip: Callable[[int, pa.RecordBatch, str], None] | None = None
    late: Late = forgotten


class Operator(ABC):
    """Computes the changes of one node.

    Attributes:
        wakes_at: processing time in milliseconds at which it works even if nothing changes; None:
            nothing waits for that. What ever does has one when it is made.
        passes_any: whether it takes rows away too where its inputs are to add rows alone: true of
            those that look at no other rows than those that they are given.
    """

    wakes_at: int | None = None
    passes_any = False

    def __init__(self, node: Any, context: Context) -> None:
        self.node = node
        self.context = context

    def key_bytes(self, place: int, changes: Changes, keys: Sequence[str]) -> pa.Array:
        """Encode keys as the operator's states do, for changes to be brought together by them.

        Args:
            place: of the input among those of the node.
            keys: columns of the input.

        Returns:
            BINARY, one a change.
        """
        return encoded(changes.columns(keys), len(changes))

    @abstractmethod
    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        """Take the changes of the inputs, in the order of ``node.inputs``; give one's own.

        Called in each epoch once or, where an epoch has many rows, several times; also with no
        changes, as time goes on.

        Raises:
            EvaluationError: a row cannot be computed: the query stops, and the state is that of
                the last checkpoint again.
        """


def always(node: Any) -> bool:
    """Whether a node of the right kind is computed: each is."""
    return True


def operates(*kinds: type[Node], when: Callable[[Any], bool] = always) -> Callable[[Kind], Kind]:
    """Say that a class computes these kinds of nodes.

    Args:
        when: which of them; those that no class computes do not run continuously.
    """

    def put(operator: Kind) -> Kind:
        for kind in kinds:
            OPERATORS.setdefault(kind, []).append((when, operator))
        return operator

    return put


def operator_of(node: Node) -> type[Operator]:
    """Find what computes a node.

    Raises:
        UnsupportedError: nothing does continuously.
    """
    from pkray.relational.continuous import operators

    operators.load()
    for when, operator in OPERATORS.get(type(node), ()):
        if when(node):
            return operator
    raise UnsupportedError(
        f"this {type(node).__name__} does not run continuously: run the query bounded",
        node=type(node).__name__,
    )


def check_operators(plan: Node, dialect: str) -> None:
    """Check that every node of a physical plan runs continuously.

    Raises:
        UnsupportedError: one does not; the error names it.
    """
    for node in plan.walk():
        if not isinstance(node, Scan | Values):
            operator_of(node)
            _check_determined(node)
            _check_emission(node)
        if dialect == Dialect.FLINK and isinstance(node, Filter | Calc):
            _check_ranks(node)


def _check_emission(node: Node) -> None:
    """Refuse results that change where they are given once."""
    if isinstance(node, Over) and node.waits and change_kinds(node.input) != INSERT:
        raise UnsupportedError(
            "OVER gives rows at the watermark where its input only adds rows, and this one takes "
            "some back: take 'waits' out of the plan",
            node="Over",
        )
    if isinstance(node, Window):
        if node.kind is WindowKind.SESSION and node.is_updated:
            raise UnsupportedError(
                "sessions give rows when they are over: take early results and lateness off, or "
                "use windows of a fixed size",
                node="Window",
            )
    elif not isinstance(node, Aggregate) and updates_windows(node):
        kind = type(node).__name__
        raise UnsupportedError(
            f"a {kind} within windows gives rows when the watermark passes their end: take early "
            "results and lateness off, or aggregate the windows",
            node=kind,
        )


def _check_determined(node: Node) -> None:
    """Refuse the time and chance where rows are computed more than once: what is taken back, or
    paired later, would not be what was added.
    """
    if isinstance(node, Filter | Project) and (name := _chance(node)):
        raise UnsupportedError(
            f"{name} gives other values when rows are computed again, as continuous queries do "
            "after a failure: take a hash of a key, such as pmod(hash(key), 100), or keep the "
            "value in a table first",
            node=type(node).__name__,
        )
    match node:
        case Filter() | Project():
            if change_kinds(node.input) != INSERT and asks_time_or_chance(node):
                raise UnsupportedError(
                    "the time of day, or chance, is asked for of rows that may change: what is "
                    "taken back would not be what was added; ask for it of a source that only adds "
                    "rows, or keep the value in a table first",
                    node=type(node).__name__,
                )
        case Join() | IntervalJoin() | TemporalJoin() if _asks_anew([node.condition]):
            raise UnsupportedError(
                "the time of day, or chance, is asked for in ON: rows are paired when either "
                "comes; make it a column of one side first",
                node=type(node).__name__,
            )
        case Window() if is_now(node.input, node.time):
            raise UnsupportedError(
                f"windows over {node.time}, the time at which a row is handled, are not supported: "
                "windows end by event time; let a WATERMARK follow a time of the rows",
                node=type(node).__name__,
            )
        case WatermarkAssign() if _asks_anew([node.delay]):
            raise UnsupportedError(
                f"the watermark of {node.time} asks for the time of day, or chance: it follows the "
                "rows alone, such as ts - INTERVAL '5' SECOND",
                node=type(node).__name__,
            )


def _asks_anew(values: Sequence[Expression]) -> bool:
    """Whether expressions may have other values when they are computed again."""
    calls = (part for value in values for part in value.walk() if isinstance(part, Call))
    return any(not function(call.function).deterministic for call in calls)


def _chance(node: Filter | Project) -> str:
    """Name a function of chance that a node computes; empty where there is none."""
    values = [value for _, value in node.columns] if isinstance(node, Project) else []
    conditions = [node.condition] if isinstance(node, Filter | Calc) else []
    calls = (part for value in (*values, *conditions) for part in value.walk())
    names = (part.function for part in calls if isinstance(part, Call))
    return next((name for name in names if name in chance.NAMES), "")


def asks_time_or_chance(node: Node) -> bool:
    """Whether a node computes what it would compute otherwise at another time."""
    if not isinstance(node, Filter | Project):
        return False
    values = [value for _, value in node.columns] if isinstance(node, Project) else []
    conditions = [node.condition] if isinstance(node, Filter | Calc) else []
    return _asks_anew([*values, *conditions])


def _check_ranks(node: Filter | Calc) -> None:
    """Refuse rows by their RANK(), which the flink dialect has in bounded queries alone."""
    for column in sorted(node.condition.columns()):
        function = _window_function(node.input, column)
        if function in ("rank", "dense_rank"):
            raise UnsupportedError(
                f"rows by their {function.upper()}() are not kept continuously in the flink "
                "dialect: use ROW_NUMBER(), or the spark dialect",
                node="Over",
            )


def _window_function(node: Node, column: str) -> str:
    """Name the window function that a column is computed by; empty if it is by none."""
    while len(node.inputs) == 1 and column in node.fields:
        if isinstance(node, Over) and column in dict(node.calls):
            return dict(node.calls)[column].function
        if isinstance(node, Project):
            value = dict(node.columns)[column]
            while isinstance(value, Cast):
                value = value.operand
            if not isinstance(value, ColumnRef):
                return ""
            column = value.name
        (node,) = node.inputs
    return ""
