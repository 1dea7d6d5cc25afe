"""Share the types, checks and Spark SQL of operators on numbers."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import coercion, function
from pkray.relational.functions.function import SparkText, Value, Written, wrong_argument
from pkray.relational.functions.numbers import decimals
from pkray.relational.functions.values import refuse, unit, zero
from pkray.relational.plan.expressions import Call, Expression
from pkray.schema.types import INTEGERS, STRINGS, DataType

DecimalRule: TypeAlias = Callable[[int, int, int, int], DataType]
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ")


def _sum_type(p1: int, s1: int, p2: int, s2: int) -> DataType:
    scale = max(s1, s2)
    return coercion.arithmetic_decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)


def _product_type(p1: int, s1: int, p2: int, s2: int) -> DataType:
    return coercion.arithmetic_decimal(p1 + p2 + 1, s1 + s2)


def quotient_type(p1: int, s1: int, p2: int, s2: int) -> DataType:
    """Give the type of a quotient of decimals, from their digits and scales."""
    scale = max(6, s1 + p2 + 1)
    return coercion.arithmetic_decimal(p1 - s1 + s2 + scale, scale)


def rest_type(p1: int, s1: int, p2: int, s2: int) -> DataType:
    """Give the type of the rest of a division of decimals, from their digits and scales."""
    scale = max(s1, s2)
    return coercion.arithmetic_decimal(min(p1 - s1, p2 - s2) + scale, scale)


_DECIMALS: dict[str, DecimalRule] = {
    "add": _sum_type,
    "subtract": _sum_type,
    "multiply": _product_type,
    "divide": quotient_type,
    "mod": rest_type,
    "pmod": rest_type,
}
WRAPPING = "_wrapping"


def result_type(arguments: tuple[Expression, ...], rule: DecimalRule | None) -> DataType:
    """Give the type of an operator's result from the types of its two numbers."""
    left, right = arguments[0].type, arguments[1].type
    nullable = coercion.any_nullable(arguments)
    if rule is None or left.root != "DECIMAL" or right.root != "DECIMAL":
        return left.with_nullable(nullable)
    given = rule(left.precision or 0, left.scale or 0, right.precision or 0, right.scale or 0)
    return given.with_nullable(nullable)


def numbers(call: Written) -> tuple[Expression, Expression]:
    """Bring two numbers together: to one type, or both to decimals with digits of their own.

    Raises:
        QueryError: one is no number.
    """
    (left, right), dialect = call.exactly(2), call.dialect
    if coercion.is_untyped_null(left):
        left = coercion.cast_to(
            left, coercion.INT if coercion.is_untyped_null(right) else right.type
        )
    if coercion.is_untyped_null(right):
        right = coercion.cast_to(right, left.type)
    for position, each in enumerate((left, right)):
        if each.type.root not in (*coercion.NUMBERS, *STRINGS):
            raise wrong_argument(call.name, position, each, "numbers")
    if left.type.root in STRINGS and right.type.root in STRINGS:
        left, right = (
            coercion.cast_to(left, coercion.DOUBLE),
            coercion.cast_to(right, coercion.DOUBLE),
        )
    if "DECIMAL" in (left.type.root, right.type.root):
        digits = coercion.as_decimal(left, dialect), coercion.as_decimal(right, dialect)
        if digits[0] and digits[1]:
            return coercion.cast_to(left, digits[0]), coercion.cast_to(right, digits[1])
    common = coercion.wider(left.type, right.type, dialect)
    assert common is not None
    return coercion.cast_to(left, common), coercion.cast_to(right, common)


def operates(call: Written) -> Expression:
    """Resolve an operator; the flink dialect's wraps integers and gives NULL for large decimals."""
    special = _of_times(call)
    if special is not None:
        return special
    pair = numbers(call)
    chosen = call.name + WRAPPING if call.dialect is Dialect.FLINK else call.name
    return Call(result_type(pair, _DECIMALS[call.name]), chosen, pair)


def _of_times(call: Written) -> Expression | None:
    name, arguments, dialect = call.name, call.arguments, call.dialect
    roots = [argument.type.root for argument in arguments]
    if len(roots) != 2 or not set(roots) & set(_TIMES) or name not in ("add", "subtract"):
        return None
    if roots[0] == "DATE" and roots[1] in INTEGERS:
        return function.resolve("date_add" if name == "add" else "date_sub", arguments, dialect)
    if roots[1] == "DATE" and roots[0] in INTEGERS and name == "add":
        return function.resolve("date_add", arguments[::-1], dialect)
    if name == "subtract" and roots[0] in _TIMES and roots[1] in _TIMES:
        wanted = "datediff(a, b)" if roots == ["DATE", "DATE"] else "timestampdiff(SECOND, b, a)"
        raise QueryError(f"the difference of two times is an INTERVAL; write {wanted}")
    raise QueryError(f"{name} of {roots[0]} and {roots[1]} is not known; write + INTERVAL '1' DAY")


def of_decimals(rule: str) -> Callable[[tuple[Expression, ...]], DataType]:
    """Type a call by a rule for decimals."""
    return lambda arguments: result_type(arguments, _DECIMALS[rule])


Exact: TypeAlias = Callable[[Value, Value], Value]


def null_or_refused(call: Call, values: Sequence[Value], exact: Value, rows: int) -> Value:
    """Fit exact results into the type; NULL or an error where they do not, as the type says."""
    if not call.type.nullable:
        return decimals.fit(call, values, exact, rows)
    return decimals.fit_or_null(exact, call.type.arrow)


def refuse_zero(call: Call, values: Sequence[Value], rows: int) -> None:
    """Refuse a divisor that is 0."""
    found = pc.equal(values[1], zero(values[1].type))
    if isinstance(found, pa.Scalar) and not found.as_py():
        return
    refuse(call, values, pc.and_(found, pc.is_valid(values[0])), "divides by zero", rows)


def where_valid(values: Sequence[Value]) -> tuple[Value, Value]:
    """Make the divisor 1 where the quotient is NULL anyway."""
    left, right = values
    if isinstance(left, pa.Scalar):
        return left, right if left.is_valid else pc.if_else(True, unit(right.type), right)
    if left.null_count:
        right = pc.if_else(pc.is_valid(left), right, unit(right.type))
    return left, right


def least_integer(kind: DataType) -> pa.Scalar:
    """Give the least integer of a type."""
    return pa.scalar(np.iinfo(kind.arrow.to_pandas_dtype()).min, kind.arrow)


_BITS_LOST = {"TINYINT": 56, "SMALLINT": 48, "INT": 32}
_TRY = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}


def low_bits(value: str, kind: DataType) -> str:
    """Write the low bits of a BIGINT in Spark SQL, as an integer of a narrower type.

    Raises:
        NotImplementedError: the type is BIGINT.
    """
    bits = _BITS_LOST.get(kind.root)
    if bits is None:
        raise NotImplementedError
    return f"CAST(shiftright(shiftleft({value}, {bits}), {bits}) AS {kind.root})"


def widened(value: str) -> str:
    """Write a BIGINT in Spark SQL."""
    return f"CAST({value} AS BIGINT)"


def spark_wrapping(symbol: str) -> SparkText:
    """Write an operator that wraps in Spark SQL."""

    def write(call: Call, arguments: Sequence[str]) -> str:
        left, right = arguments
        if call.type.root in coercion.FLOATS and symbol in _TRY:
            return f"({left} {symbol} {right})"
        if call.type.root == "DECIMAL" and symbol in _TRY and call.type.nullable:
            return f"{_TRY[symbol]}({left}, {right})"
        if symbol == "%" and call.type.root in INTEGERS:
            return f"({left} % {right})"
        return low_bits(f"({widened(left)} {symbol} {widened(right)})", call.type)

    return write
