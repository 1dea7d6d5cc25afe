"""Typed expressions: what is computed for a row.

Each has a `type`. There are few kinds, because whatever computes is a `Call` of a function by its
canonical name (see `pkray.relational.functions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pkray.columns.sort_key import SortKey as SortKey
from pkray.schema.types import DataType


@dataclass(frozen=True)
class Expression:
    """A value a row, of one type."""

    type: DataType

    def operands(self) -> tuple[Expression, ...]:
        """List the expressions that this one is computed from."""
        return ()

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        """Put others in the place of `operands`, in their order."""
        return self

    def walk(self) -> Iterator[Expression]:
        """List this expression and all below it, from the top down."""
        yield self
        for operand in self.operands():
            yield from operand.walk()

    def transform(self, change: Callable[[Expression], Expression]) -> Expression:
        """Apply `change` to each expression, from the bottom up."""
        operands = self.operands()
        changed = tuple(operand.transform(change) for operand in operands)
        return change(self if changed == operands else self.with_operands(changed))

    def columns(self) -> frozenset[str]:
        """List the columns it reads."""
        return frozenset().union(*(operand.columns() for operand in self.operands()))


@dataclass(frozen=True)
class ColumnRef(Expression):
    """The value of a column of the node's input (of the joined row in a join's condition)."""

    name: str

    def columns(self) -> frozenset[str]:
        return frozenset((self.name,))


@dataclass(frozen=True)
class Literal(Expression):
    """A constant. Two are equal if nothing tells them apart: 0.0 and -0.0 are not, NaN is itself.

    Attributes:
        value: as ``pa.Scalar.as_py`` gives it: None, bool, int, float, Decimal, str, bytes, date,
            time, datetime (aware in UTC for TIMESTAMP_LTZ), list, dict. Timestamps finer than
            microseconds are ints of nanoseconds.
    """

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._written == other._written

    def __hash__(self) -> int:
        return hash(self._written)

    @property
    def _written(self) -> tuple[DataType, str]:
        """Give what identifies it, which a list or a dict itself cannot."""
        return self.type, repr(self.value)


COMPARISONS = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
"""The functions that compare two values, and the operators that they are written by."""


@dataclass(frozen=True)
class Call(Expression):
    """A function of its arguments.

    Attributes:
        function: the canonical name, as ``pkray.relational.functions.function`` knows it.
    """

    function: str
    arguments: tuple[Expression, ...] = ()

    def operands(self) -> tuple[Expression, ...]:
        return self.arguments

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        return replace(self, arguments=operands)


@dataclass(frozen=True)
class Cast(Expression):
    """A value in another type.

    Attributes:
        on_error: ``raise`` for a value that does not fit, ``null``, or ``wrap`` (integers lose
            their high bits, as the flink dialect's arithmetic has it).
    """

    operand: Expression
    on_error: str = "raise"

    def operands(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        return replace(self, operand=operands[0])


@dataclass(frozen=True)
class Case(Expression):
    """The value beside the first condition that is true; each is computed for its rows alone.

    Attributes:
        branches: (condition, value) pairs.
        otherwise: the value where no condition is true; a Literal of None where none is given.
    """

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression

    def operands(self) -> tuple[Expression, ...]:
        return (*(part for branch in self.branches for part in branch), self.otherwise)

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        pairs = zip(operands[0:-1:2], operands[1:-1:2], strict=True)
        return replace(self, branches=tuple(pairs), otherwise=operands[-1])


@dataclass(frozen=True)
class Lambda(Expression):
    """A function written in place (``x -> x + 1``), as an argument of a Call.

    Attributes:
        parameters: names that `body` refers to by ColumnRef; they hide columns of the same name.
    """

    parameters: tuple[str, ...]
    body: Expression

    def operands(self) -> tuple[Expression, ...]:
        return (self.body,)

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        return replace(self, body=operands[0])

    def columns(self) -> frozenset[str]:
        return self.body.columns() - set(self.parameters)


class NamedFunction:
    """A user's function: plans keep its name alone."""

    name: str


@dataclass(frozen=True)
class UdfCall(Expression):
    """A user's Python function over Arrow arrays.

    Attributes:
        udf: a `pkray.relational.functions.user_functions.UserFunction`.
    """

    udf: Any
    arguments: tuple[Expression, ...] = ()

    def operands(self) -> tuple[Expression, ...]:
        return self.arguments

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        return replace(self, arguments=operands)


@dataclass(frozen=True)
class Link:
    """One step of a Chain.

    Attributes:
        function: the canonical name of a function of two numbers.
        type: what it gives.
        left: the type that the value so far is cast to before.
        operand: the second number.
    """

    function: str
    type: DataType
    left: DataType
    operand: Expression


@dataclass(frozen=True)
class Chain(Expression):
    """Operators of numbers one after the other, from left to right: ``a + 1 - b * c …``.

    It means the same as Calls in each other, and is flat: so that thousands of operators are no
    thousands of levels for what walks expressions.
    """

    first: Expression
    links: tuple[Link, ...]

    def operands(self) -> tuple[Expression, ...]:
        return (self.first, *(link.operand for link in self.links))

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        pairs = zip(self.links, operands[1:], strict=True)
        links = tuple(replace(link, operand=operand) for link, operand in pairs)
        return replace(self, first=operands[0], links=links)

    def calls(self) -> tuple[tuple[Cast | None, Call], ...]:
        """List what each step does: the cast of the value so far, if its type changes, and the
        call; their first operand, of no name, stands for that value.
        """
        before = (self.first.type, *(link.type for link in self.links))
        return tuple(
            (
                None if link.left == kind else Cast(link.left, ColumnRef(kind, "")),
                Call(link.type, link.function, (ColumnRef(link.left, ""), link.operand)),
            )
            for kind, link in zip(before, self.links, strict=False)
        )


@dataclass(frozen=True)
class AggregateCall:
    """One value a group. Arguments are columns of the node's input.

    Attributes:
        function: the aggregate's canonical name: ``count`` (no argument: rows; else non-NULLs),
            ``sum``, ``sum_wrapping``, ``avg``, ``avg_truncating``, ``min`` … ; or ``udf``.
        parameters: constants of the call, such as the separator of ``listagg``.
        filter: a BOOLEAN column; only rows where it is true count.
        order_by: the order within the group, for functions that depend on it.
        udf: for ``udf``, a `pkray.relational.functions.user_functions.UserFunction`.
    """

    function: str
    arguments: tuple[str, ...]
    type: DataType
    distinct: bool = False
    filter: str | None = None
    order_by: tuple[SortKey, ...] = ()
    parameters: tuple[Literal, ...] = ()
    ignore_nulls: bool = False
    udf: Any = None

    def columns(self) -> tuple[str, ...]:
        """List the columns that it reads."""
        order = (key.column for key in self.order_by)
        return (*self.arguments, *order, *((self.filter,) if self.filter else ()))


@dataclass(frozen=True)
class Frame:
    """The rows around a row that a window function sees.

    Attributes:
        unit: ``rows`` or ``range``.
        start, end: None is unbounded; 0 the current row (and its peers for ``range``); negative
            is before. For ``range`` over times: microseconds.
    """

    unit: str = "range"
    start: int | float | None = None
    end: int | float | None = 0

    WHOLE: ClassVar[Frame]


Frame.WHOLE = Frame("rows", None, None)


@dataclass(frozen=True)
class WindowCall:
    """One value a row, computed from its partition.

    Attributes:
        function: an aggregate's canonical name, or ``row_number``, ``rank``, ``dense_rank``,
            ``percent_rank``, ``cume_dist``, ``ntile``, ``lag``, ``lead``, ``first_value``,
            ``last_value``, ``nth_value``.
        parameters: constants, such as the offset and the default of ``lag``.
    """

    function: str
    arguments: tuple[str, ...]
    type: DataType
    frame: Frame
    parameters: tuple[Literal, ...] = ()
    ignore_nulls: bool = False
    udf: Any = None

    def columns(self) -> tuple[str, ...]:
        """List the columns that it reads, besides those of its partition and order."""
        return self.arguments

    def of_group(self) -> AggregateCall:
        """Give the same call as that of a group."""
        return AggregateCall(
            self.function,
            self.arguments,
            self.type,
            parameters=self.parameters,
            ignore_nulls=self.ignore_nulls,
            udf=self.udf,
        )


def replace_columns(
    expression: Expression, change: Callable[[ColumnRef], Expression]
) -> Expression:
    """Put other expressions in the place of columns; the parameters of a Lambda stay."""
    if isinstance(expression, ColumnRef):
        return change(expression)
    if isinstance(expression, Lambda):
        hidden = set(expression.parameters)
        body = replace_columns(
            expression.body, lambda column: column if column.name in hidden else change(column)
        )
        return replace(expression, body=body)
    operands = expression.operands()
    changed = tuple(replace_columns(operand, change) for operand in operands)
    return expression if changed == operands else expression.with_operands(changed)


TRUE = Literal(DataType("BOOLEAN", nullable=False), True)


def conjuncts(condition: Expression) -> tuple[Expression, ...]:
    """Split at AND."""
    if isinstance(condition, Call) and condition.function == "and":
        return tuple(part for operand in condition.arguments for part in conjuncts(operand))
    return () if condition == TRUE else (condition,)


def all_of(conditions: tuple[Expression, ...]) -> Expression:
    """Join by AND; true where there is none."""
    parts = tuple(part for condition in conditions for part in conjuncts(condition))
    if len(parts) < 2:
        return parts[0] if parts else TRUE
    return Call(DataType("BOOLEAN", any(part.type.nullable for part in parts)), "and", parts)
