"""What functions ask of their arguments: how many, which types, constants."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pkray.errors import QueryError
from pkray.relational.plan.expressions import Cast, Expression, Literal
from pkray.schema.types import INTEGERS, STRINGS, DataType

BOOLEAN = DataType("BOOLEAN")
INT = DataType("INT")
BIGINT = DataType("BIGINT")
DOUBLE = DataType("DOUBLE")
STRING = DataType("STRING")
FLOATS = ("FLOAT", "DOUBLE")
NUMBERS = (*INTEGERS, *FLOATS, "DECIMAL")
TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ")
TEXTS = tuple(STRINGS)


def check_count(
    name: str, arguments: Collection[object], low: int, high: int | None = None
) -> None:
    """Refuse a call with fewer than `low` or more than `high` (None: `low`) arguments."""
    high = low if high is None else high
    if not low <= len(arguments) <= high:
        wanted = f"{low}" if low == high else f"{low} to {high}"
        plural = "" if wanted == "1" else "s"
        raise QueryError(
            f"{name} takes {wanted} argument{plural}; {len(arguments)} given", function=name
        )


def check_root(name: str, argument: Expression, roots: Collection[str], number: int = 1) -> None:
    """Refuse an argument whose type is none of `roots`; a NULL passes."""
    if argument.type.root not in roots and not is_null(argument):
        raise QueryError(
            f"argument {number} of {name} is {argument.type}; it must be {' or '.join(roots)}",
            function=name,
            type=str(argument.type),
        )


def is_null(argument: Expression) -> bool:
    """Whether it is the constant NULL."""
    return isinstance(argument, Literal) and argument.value is None


def cast_to(argument: Expression, wanted: DataType) -> Expression:
    """Cast to a type; whether it may be NULL stays."""
    wanted = wanted.with_nullable(argument.type.nullable)
    if argument.type == wanted:
        return argument
    if is_null(argument):
        return Literal(wanted.with_nullable(True), None)
    return Cast(wanted, argument)


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
