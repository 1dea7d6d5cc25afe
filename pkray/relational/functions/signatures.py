"""Resolvers of functions whose parameters have types that do not depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.coercion import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOATS,
    INT,
    NUMBERS,
    STRING,
    any_nullable,
    cast_to,
    is_untyped_null,
)
from pkray.relational.plan.expressions import Call, Expression, Lambda
from pkray.schema.types import BINARIES, INTEGERS, STRINGS, DataType

Gives: TypeAlias = "DataType | Callable[[tuple[Expression, ...]], DataType]"
Resolver: TypeAlias = Callable[[tuple[Expression, ...], Dialect], Expression]


@dataclass(frozen=True)
class Parameter:
    """What a function takes at a place.

    Attributes:
        wanted: what that is, for errors: ``a number``.
        cast: casts an argument to it; None where that cannot be.
    """

    wanted: str
    cast: Callable[[Expression], Expression | None]

    def __call__(self, argument: Expression) -> Expression | None:
        """Cast an argument; None where that cannot be."""
        return self.cast(argument)


def parameter(wanted: str) -> Callable[[Callable[[Expression], Expression | None]], Parameter]:
    """Make a `Parameter` of the function below."""
    return lambda cast: Parameter(wanted, cast)


@parameter("text")
def text(argument: Expression) -> Expression | None:
    """Take text: any scalar is written as text."""
    return _scalar_as(argument, STRING)


@parameter("text or BYTES")
def text_or_bytes(argument: Expression) -> Expression | None:
    """Take text or bytes as they are; other scalars are written as text."""
    return cast_to(argument, BYTES) if argument.type.root in BINARIES else text(argument)


@parameter("BYTES or text")
def binary(argument: Expression) -> Expression | None:
    """Take bytes; text is taken as its UTF-8."""
    taken = argument.type.root in (*BINARIES, *STRINGS)
    return cast_to(argument, BYTES) if taken else None


@parameter("a number")
def integer(argument: Expression) -> Expression | None:
    """Take an INT; other numbers and text are cast."""
    return _number_as(argument, INT)


@parameter("a number")
def bigint(argument: Expression) -> Expression | None:
    """Take a BIGINT; other numbers and text are cast."""
    return _number_as(argument, BIGINT)


@parameter("a number")
def double(argument: Expression) -> Expression | None:
    """Take a DOUBLE; other numbers and text are cast."""
    return _number_as(argument, DOUBLE)


@parameter("a number")
def floating(argument: Expression) -> Expression | None:
    """Take FLOAT and DOUBLE as they are; other numbers and text are cast to DOUBLE."""
    return argument if argument.type.root in FLOATS else double(argument)


@parameter("a number")
def number(argument: Expression) -> Expression | None:
    """Take a number as it is; text is cast to DOUBLE."""
    return argument if argument.type.root in NUMBERS else double(argument)


@parameter("an integer")
def whole(argument: Expression) -> Expression | None:
    """Take an integer as it is; text is cast to BIGINT."""
    if argument.type.root in INTEGERS:
        return argument
    return bigint(argument) if argument.type.root in STRINGS else None


@parameter("a BOOLEAN")
def boolean(argument: Expression) -> Expression | None:
    """Take a BOOLEAN; text is cast."""
    taken = argument.type.root in ("BOOLEAN", *STRINGS)
    return cast_to(argument, BOOLEAN) if taken else None


@parameter("a value")
def anything(argument: Expression) -> Expression | None:
    """Take whatever comes, a lambda excepted."""
    return None if isinstance(argument, Lambda) else argument


def _scalar_as(argument: Expression, target: DataType) -> Expression | None:
    if argument.type.is_nested or isinstance(argument, Lambda):
        return None
    return cast_to(argument, target)


def _number_as(argument: Expression, target: DataType) -> Expression | None:
    taken = argument.type.root in (*NUMBERS, *STRINGS) and not isinstance(argument, Lambda)
    return cast_to(argument, target) if taken else None


def takes(
    name: str,
    *parameters: Parameter,
    gives: Gives,
    least: int | None = None,
    rest: Parameter | None = None,
    nullable: bool | None = None,
) -> Resolver:
    """Make a resolver.

    Args:
        name: the canonical name.
        gives: the result's type, or what makes it of the arguments after their casts.
        least: how many arguments must be there; by default as many as there are parameters.
        rest: what further arguments are; None: there are none.
        nullable: whether the result can be NULL; None: if an argument can.
    """
    minimum = len(parameters) if least is None else least

    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, minimum, None if rest else len(parameters))
        cast = tuple(
            _taken(name, position, argument, parameters, rest)
            for position, argument in enumerate(arguments)
        )
        result = gives if isinstance(gives, DataType) else gives(cast)
        can_be_null = any_nullable(cast) if nullable is None else nullable
        return Call(result.with_nullable(can_be_null), name, cast)

    return resolve


def check_count(name: str, arguments: Sequence[Expression], least: int, most: int | None) -> None:
    """Refuse too few or too many arguments.

    Args:
        most: None: as many as one likes.

    Raises:
        QueryError: with the counts.
    """
    count = len(arguments)
    if count >= least and (most is None or count <= most):
        return
    if most is None:
        wanted = f"at least {least}"
    else:
        wanted = str(least) if least == most else f"{least} to {most}"
    noun = "argument" if wanted == "1" else "arguments"
    raise QueryError(f"{name} takes {wanted} {noun}, not {count}", function=name)


def wrong_argument(name: str, position: int, argument: Expression, wanted: str = "") -> QueryError:
    """Make the error for an argument whose type the function does not take.

    Args:
        position: from 0.
        wanted: what it takes: ``a number``.
    """
    said = "a lambda" if isinstance(argument, Lambda) else str(argument.type.with_nullable(True))
    remedy = f"; it takes {wanted}" if wanted else "; cast it"
    return QueryError(f"argument {position + 1} of {name} is {said}{remedy}", function=name)


def _taken(
    name: str,
    position: int,
    argument: Expression,
    parameters: Sequence[Parameter],
    rest: Parameter | None,
) -> Expression:
    wanted = parameters[position] if position < len(parameters) else rest
    assert wanted is not None
    taken = wanted.cast(argument)
    if taken is None:
        raise wrong_argument(name, position, argument, wanted.wanted)
    return taken


def same_as(position: int = 0) -> Callable[[tuple[Expression, ...]], DataType]:
    """Give the type of an argument; an untyped NULL counts as DOUBLE."""

    def type_of(arguments: tuple[Expression, ...]) -> DataType:
        argument = arguments[position]
        return DOUBLE if is_untyped_null(argument) else argument.type

    return type_of
