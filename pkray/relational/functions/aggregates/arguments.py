"""Arguments of aggregates and window functions."""

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import coercion
from pkray.relational.functions.signatures import constant, of_types, parameter
from pkray.relational.plan.expressions import Expression, Literal
from pkray.schema.types import INTEGERS, STRINGS

CONDITION = of_types("a BOOLEAN", "BOOLEAN", null=True)
INTEGER = of_types("an integer", *INTEGERS, null=True)


@parameter("a number")
def number(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take a number; the spark dialect reads text as DOUBLE."""
    is_text = argument.type.root in STRINGS
    if coercion.is_null_literal(argument) or (is_text and dialect is Dialect.SPARK):
        return coercion.cast_to(argument, coercion.DOUBLE)
    return argument if argument.type.root in coercion.NUMBERS else None


def check_ordered(name: str, argument: Expression, *, nested: bool = False) -> None:
    """Refuse values that have no order; ARRAYs and ROWs too, unless said otherwise."""
    if argument.type.is_nested and not (nested and coercion.has_order(argument.type)):
        raise QueryError(
            f"{name} cannot order values of {argument.type}: give a number, text or a time",
            function=name,
            type=str(argument.type),
        )


def whole_number(name: str, said: Expression, what: str, low: int | None = None) -> Literal:
    """Take a constant INT, of at least `low`."""
    given = constant(name, said, what)
    if not isinstance(given, int) or isinstance(given, bool) or (low and given < low):
        wanted = "a whole number" + (f" of at least {low}" if low else "")
        raise QueryError(f"{what} of {name} must be {wanted}; {given!r} given", function=name)
    if not -(2**31) <= given < 2**31:
        raise QueryError(f"{what} of {name} is {given}: it must be an INT", function=name)
    return Literal(coercion.INT.with_nullable(False), given)
