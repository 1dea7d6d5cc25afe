"""Operators that give NULL where the plain ones fail."""

from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.coercion import BIGINT, cast_to
from pkray.relational.functions.function import Family, Resolver, never
from pkray.relational.functions.signatures import check_count
from pkray.relational.functions.values import zero
from pkray.relational.plan.expressions import Call, Cast, Expression, Literal
from pkray.schema.types import INTEGERS, DataType

ARITHMETIC = Family("arithmetic")

_WIDE = DataType("DECIMAL", precision=19, scale=0)


def _tries(name: str) -> Resolver:
    """Compute integers in a wider type, and cast back what fits."""

    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(f"try_{name}", arguments, 2, 2)
        plain = function.resolve(name, arguments, Dialect.SPARK)
        if not isinstance(plain, Call) or plain.function != name:
            return plain
        if plain.type.root == "DECIMAL":
            nullable = plain.type.with_nullable(True)
            return Call(nullable, f"{name}_wrapping", plain.arguments)
        if plain.type.root not in INTEGERS:
            return plain
        kind = _WIDE if plain.type.root == "BIGINT" else BIGINT
        pair = tuple(cast_to(each, kind) for each in plain.arguments)
        wide = function.resolve(name, pair, Dialect.SPARK)
        return Cast(plain.type.with_nullable(True), wide, "null")

    return resolve


def _tries_to_divide(name: str) -> Resolver:
    """Give NULL where the divisor is zero."""

    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(f"try_{name}", arguments, 2, 2)
        plain = function.resolve(name, arguments, Dialect.SPARK)
        if not isinstance(plain, Call):
            return plain
        left, divisor = plain.arguments
        none = Literal(divisor.type.with_nullable(False), zero(divisor.type.arrow).as_py())
        pair = (left, function.resolve("nullif", (divisor, none), dialect))
        chosen = f"{name}_wrapping" if plain.type.root == "DECIMAL" else name
        return Call(plain.type.with_nullable(True), chosen, pair)

    return resolve


for _name, _symbol in (("add", "+"), ("subtract", "-"), ("multiply", "*")):
    ARITHMETIC.add(
        f"try_{_name}(number, number) -> number",
        f"Compute number {_symbol} number; NULL where it overflows.",
        _tries(_name),
        never,
        name=f"try_{_name}",
    )
for _name, _symbol, _synonyms in (("divide", "/", ()), ("mod", "%", ("try_remainder",))):
    ARITHMETIC.add(
        f"try_{_name}(number, number) -> number",
        f"Compute number {_symbol} number; NULL where the divisor is 0.",
        _tries_to_divide(_name),
        never,
        synonyms=_synonyms,
        name=f"try_{_name}",
    )
