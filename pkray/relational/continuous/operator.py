"""Define operators: changes of inputs and a state become changes and a newer state.

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
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.continuous.state.state import State, StateSpec
from pkray.relational.functions.function import function
from pkray.relational.plan.changelog_modes import ChangelogMode
from pkray.relational.plan.expressions import Call, Expression
from pkray.relational.plan.nodes import Filter, Node, Project
from pkray.relational.plan.source import Source


class SourceRows(Protocol):
    """Finds rows of a source as it is before the changes of an epoch, and after them."""

    @property
    def begins(self) -> bool:
        """Whether the source had no rows before this epoch."""

    def find(
        self, keys: pa.RecordBatch, columns: Sequence[str], *, before: bool
    ) -> tuple[np.ndarray, pa.RecordBatch]:
        """Find all rows of keys.

        Args:
            keys: distinct, without NULLs, under the names of the source's columns, by which it
                finds rows (``Source.finds_by``).
            columns: what to read.
            before: as the source was before the epoch; otherwise as it is after it.

        Returns:
            for each row the number of its key, int64 and ascending; and the rows.
        """


OPERATORS: dict[type[Node], list[tuple[Callable[[Any], bool], type[Operator]]]] = {}
"""Of each kind of node, which operators compute it, and under which condition."""

Kind = TypeVar("Kind", bound="type[Operator]")


@dataclass(frozen=True)
class Epoch:
    """Tells an operator of the epoch that it works on; the same when it is run again.

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
    """Gives an operator its surroundings.

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


def asks_anew(values: Sequence[Expression]) -> bool:
    """Whether expressions may have other values when they are computed again."""
    calls = (part for value in values for part in value.walk() if isinstance(part, Call))
    return any(not function(call.function).deterministic for call in calls)


def asks_time_or_chance(node: Node) -> bool:
    """Whether a node computes what it would compute otherwise at another time."""
    return isinstance(node, Filter | Project) and asks_anew(node.expressions())
