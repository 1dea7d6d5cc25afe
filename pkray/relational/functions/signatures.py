"""Say what functions take and give: parameters, how many, constants, and the result's type.

A `Parameter` casts an argument, or refuses it; `takes` makes a resolver of parameters. Where a type
depends on others, a resolver is written by hand and takes each argument by `Parameter.taken`.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import coercion
from pkray.relational.functions.function import Parameter, Resolver, Typing, Written, typed_call
from pkray.relational.plan.expressions import Call, Cast, Expression, Lambda, Literal
from pkray.schema.types import BINARIES, INTEGERS, STRINGS, DataType

Gives: TypeAlias = DataType | Callable[[tuple[Expression, ...]], DataType]


def parameter(
    wanted: str,
) -> Callable[[Callable[[Expression, Dialect], Expression | None]], Parameter]:
    """Make a `Parameter` of the function below."""
    return lambda cast: Parameter(wanted, cast)


def of_types(wanted: str, *roots: str, null: bool = False) -> Parameter:
    """Make a `Parameter` that takes values of some types as they are.

    Args:
        roots: of the types, such as ``ARRAY``.
        null: whether NULL without a type passes.
    """

    def cast(argument: Expression, dialect: Dialect) -> Expression | None:
        if isinstance(argument, Lambda):
            return None
        taken = argument.type.root in roots or (null and coercion.is_null_literal(argument))
        return argument if taken else None

    return Parameter(wanted, cast)


@parameter("text")
def text(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take text: any scalar is written as text."""
    return _scalar_as(argument, coercion.STRING)


@parameter("text or BYTES")
def text_or_bytes(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take text or bytes as they are; other scalars are written as text."""
    return (
        coercion.cast_to(argument, coercion.BYTES)
        if argument.type.root in BINARIES
        else text.cast(argument, dialect)
    )


@parameter("BYTES or text")
def binary(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take bytes; text is taken as its UTF-8."""
    taken = argument.type.root in (*BINARIES, *STRINGS)
    return coercion.cast_to(argument, coercion.BYTES) if taken else None


@parameter("a number")
def integer(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take an INT; other numbers and text are cast."""
    return _number_as(argument, coercion.INT)


@parameter("a number")
def bigint(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take a BIGINT; other numbers and text are cast."""
    return _number_as(argument, coercion.BIGINT)


@parameter("a number")
def double(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take a DOUBLE; other numbers and text are cast."""
    return _number_as(argument, coercion.DOUBLE)


@parameter("a number")
def floating(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take FLOAT and DOUBLE as they are; other numbers and text are cast to DOUBLE."""
    return argument if argument.type.root in coercion.FLOATS else double.cast(argument, dialect)


@parameter("a number")
def number(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take a number as it is; text is cast to DOUBLE."""
    return argument if argument.type.root in coercion.NUMBERS else double.cast(argument, dialect)


@parameter("an integer")
def whole(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take an integer as it is; text is cast to BIGINT."""
    if argument.type.root in INTEGERS:
        return argument
    return bigint.cast(argument, dialect) if argument.type.root in STRINGS else None


@parameter("a BOOLEAN")
def boolean(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take a BOOLEAN; text is cast."""
    taken = argument.type.root in ("BOOLEAN", *STRINGS)
    return coercion.cast_to(argument, coercion.BOOLEAN) if taken else None


@parameter("a value")
def anything(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take whatever comes, a lambda excepted."""
    return None if isinstance(argument, Lambda) else argument


def _scalar_as(argument: Expression, target: DataType) -> Expression | None:
    if argument.type.is_nested or isinstance(argument, Lambda):
        return None
    return coercion.cast_to(argument, target)


def _number_as(argument: Expression, target: DataType) -> Expression | None:
    taken = argument.type.root in (*coercion.NUMBERS, *STRINGS) and not isinstance(argument, Lambda)
    return coercion.cast_to(argument, target) if taken else None


def takes(
    *parameters: Parameter,
    gives: Gives | None = None,
    least: int | None = None,
    rest: Parameter | None = None,
    nullable: bool | None = None,
    alike: bool = False,
) -> Resolver:
    """Make a resolver.

    Args:
        gives: the result's type, or what makes it of the arguments after their casts; None: the
            function's `typing` says it.
        least: how many arguments must be there; by default as many as there are parameters.
        rest: what further arguments are; None: there are none.
        nullable: whether the result can be NULL; None: if an argument can.
        alike: whether all arguments are cast to the type that they have in common.
    """

    def resolve(call: Written) -> Expression:
        cast, name = call.taken(*parameters, least=least, rest=rest), call.name
        if alike:
            if cast[0].type.is_nested and name not in _CASTING:
                for each in cast[1:]:
                    coercion.check_texts(name, cast[0], each)
            cast = coercion.coerced(cast, call.dialect, f"arguments of {name}")
        if gives is None:
            return typed_call(name, *cast)
        result = gives if isinstance(gives, DataType) else gives(cast)
        can_be_null = coercion.any_nullable(cast) if nullable is None else nullable
        return Call(result.with_nullable(can_be_null), name, cast)

    return resolve


_CASTING = ("array_concat",)
"""Functions of ARRAYs that cast text to numbers as they run, as Spark's do."""


def constant(name: str, argument: Expression, what: str) -> Any:
    """Give the value of an argument that must be a constant.

    Args:
        what: what the argument is, for the message: ``the separator``.
    """
    if isinstance(argument, Literal):
        return argument.value
    if isinstance(argument, Cast) and isinstance(argument.operand, Literal):
        return argument.operand.value
    raise QueryError(f"{what} of {name} must be a constant", function=name)


def constant_text(name: str, argument: Expression, what: str) -> str:
    """Give an argument that must be a text of the query itself."""
    if isinstance(argument, Literal) and isinstance(argument.value, str):
        return argument.value
    raise QueryError(f"{what} of {name} must be constant text", function=name)


def text_literal(value: str) -> Literal:
    """Make a constant text."""
    return Literal(coercion.STRING.with_nullable(False), value)


def result(kind: DataType, nullable: bool | None = None) -> Typing:
    """Make a `Function.typing` of one type.

    Args:
        nullable: whether the result can be NULL; None: if an argument can.
    """

    def typing(arguments: tuple[Expression, ...]) -> DataType:
        return kind.with_nullable(
            coercion.any_nullable(arguments) if nullable is None else nullable
        )

    return typing


def same_as(position: int = 0) -> Callable[[tuple[Expression, ...]], DataType]:
    """Give the type of an argument; an untyped NULL counts as DOUBLE."""

    def type_of(arguments: tuple[Expression, ...]) -> DataType:
        argument = arguments[position]
        return coercion.DOUBLE if coercion.is_untyped_null(argument) else argument.type

    return type_of
