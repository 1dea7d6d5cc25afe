"""Operators that give NULL where the plain ones fail."""

from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.coercion import BIGINT, cast_to
from pkray.relational.functions.function import Family, Written
from pkray.relational.functions.values import zero
from pkray.relational.plan.expressions import Call, Cast, Expression, Literal
from pkray.schema.types import INTEGERS, DataType

ARITHMETIC = Family("arithmetic")

_WIDE = DataType("DECIMAL", precision=19, scale=0)


def _tries(call: Written) -> Expression:
    """Compute integers in a wider type, and cast back what fits."""
    name = call.name.removeprefix("try_")
    plain = function.resolve(name, call.exactly(2), Dialect.SPARK)
    if not isinstance(plain, Call) or plain.function != name:
        return plain
    if plain.type.root == "DECIMAL":
        return Call(plain.type.with_nullable(True), f"{name}_wrapping", plain.arguments)
    if plain.type.root not in INTEGERS:
        return plain
    kind = _WIDE if plain.type.root == "BIGINT" else BIGINT
    pair = tuple(cast_to(each, kind) for each in plain.arguments)
    wide = function.resolve(name, pair, Dialect.SPARK)
    return Cast(plain.type.with_nullable(True), wide, "null")


def _tries_to_divide(call: Written) -> Expression:
    """Give NULL where the divisor is zero."""
    name = call.name.removeprefix("try_")
    plain = function.resolve(name, call.exactly(2), Dialect.SPARK)
    if not isinstance(plain, Call):
        return plain
    left, divisor = plain.arguments
    none = Literal(divisor.type.with_nullable(False), zero(divisor.type.arrow).as_py())
    pair = (left, function.resolve("nullif", (divisor, none), call.dialect))
    chosen = f"{name}_wrapping" if plain.type.root == "DECIMAL" else name
    return Call(plain.type.with_nullable(True), chosen, pair)


for _name, _symbol in (("add", "+"), ("subtract", "-"), ("multiply", "*")):
    ARITHMETIC.alias(
        f"try_{_name}(number, number) -> number",
        f"Compute number {_symbol} number; NULL where it overflows.",
        _tries,
    )
for _name, _symbol, _synonyms in (("divide", "/", ()), ("mod", "%", ("try_remainder",))):
    ARITHMETIC.alias(
        f"try_{_name}(number, number) -> number",
        f"Compute number {_symbol} number; NULL where the divisor is 0.",
        _tries_to_divide,
        *_synonyms,
    )
