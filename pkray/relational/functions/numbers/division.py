"""Quotients and rests."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.coercion import BIGINT, DOUBLE, FLOATS, any_nullable, cast_to
from pkray.relational.functions.comparison import operator
from pkray.relational.functions.function import Family, Value, Written
from pkray.relational.functions.numbers import decimals, operators
from pkray.relational.functions.numbers.arithmetic import define_operator
from pkray.relational.functions.values import all_scalars, checked, from_numpy, numpy_of, zero
from pkray.relational.plan.expressions import Call, Expression
from pkray.schema.types import INTEGERS

ARITHMETIC = Family("arithmetic")


def _divide_wrapping(call: Call, values: Sequence[Value], rows: int) -> Value:
    if call.type.root != "DECIMAL":
        return pc.divide(values[0], values[1])
    operators.refuse_zero(call, values, rows)
    return operators.null_or_refused(call, values, _quotient(call, values, rows), rows)


def _quotient(call: Call, values: Sequence[Value], rows: int) -> Value:
    left, right = operators.where_valid(values)
    scale = call.type.scale or 0
    problem = f"has more digits than {call.type}"
    return checked(call, (left, right), rows, lambda a, b: decimals.divide(a, b, scale), problem)


def _divide_truncating(call: Call, values: Sequence[Value], rows: int) -> Value:
    operators.refuse_zero(call, values, rows)
    left, right = operators.where_valid(values)
    if all_scalars(values) and not (left.is_valid and right.is_valid):
        return pa.scalar(None, call.type.arrow)
    quotient = pc.divide(left, right)
    least = operators.least_integer(call.type)
    wrapped = pc.and_(pc.equal(left, least), pc.equal(right, pa.scalar(-1, right.type)))
    return pc.if_else(wrapped, least, quotient)


def _mod(call: Call, values: Sequence[Value], rows: int) -> Value:
    operators.refuse_zero(call, values, rows)
    return _rest(call, values, rows)


def _mod_wrapping(call: Call, values: Sequence[Value], rows: int) -> Value:
    if call.type.root not in FLOATS:
        operators.refuse_zero(call, values, rows)
    return _rest(call, values, rows)


def _rest(call: Call, values: Sequence[Value], rows: int) -> Value:
    """Give the rest with the sign of what is divided."""
    if call.type.root == "DECIMAL":
        left, right = operators.where_valid(values)
        return decimals.fit(call, values, decimals.quotient_and_rest(left, right)[1], rows)
    with np.errstate(all="ignore"):
        rest = np.fmod(numpy_of(values[0]), numpy_of(values[1]))
    return from_numpy(rest, values, call.type.arrow, rows)


def _resolve_divide(call: Written) -> Expression:
    left, right = operators.numbers(call)
    both_integers = left.type.root in INTEGERS
    if call.dialect is Dialect.FLINK and both_integers:
        return Call(operators.result_type((left, right), None), "divide_truncating", (left, right))
    if left.type.root != "DECIMAL" and call.dialect is Dialect.SPARK:
        left, right = cast_to(left, DOUBLE), cast_to(right, DOUBLE)
    name = "divide" if call.dialect is Dialect.SPARK else "divide_wrapping"
    return Call(operators.result_type((left, right), operators.quotient_type), name, (left, right))


def _resolve_div(call: Written) -> Expression:
    left, right = operators.numbers(call)
    if left.type.root != "DECIMAL":
        left, right = cast_to(left, BIGINT), cast_to(right, BIGINT)
    return Call(BIGINT.with_nullable(any_nullable((left, right))), "div", (left, right))


define_operator(
    "mod", "%", "Give the rest of a division, with the sign of the dividend.", _mod, _mod_wrapping
)


@ARITHMETIC.kernel(
    "number / number -> DOUBLE | DECIMAL",
    "Divide a number; integers give DOUBLE (in the flink dialect an integer).",
    _resolve_divide,
    operators.of_decimals("divide"),
    spark=operator("/"),
    synonyms=("/",),
    name="divide",
)
def _divide(call: Call, values: Sequence[Value], rows: int) -> Value:
    operators.refuse_zero(call, values, rows)
    if call.type.root != "DECIMAL":
        return pc.divide(values[0], values[1])
    return decimals.fit(call, values, _quotient(call, values, rows), rows)


ARITHMETIC.add_inner(
    "divide_wrapping",
    "Divide numbers; decimals that are too large are NULL, a float divided by zero infinite.",
    _divide_wrapping,
    operators.of_decimals("divide"),
    spark=function.NO_SPARK,
)
ARITHMETIC.add_inner(
    "divide_truncating",
    "Divide integers; the quotient is cut towards zero and wraps.",
    _divide_truncating,
    lambda arguments: operators.result_type(arguments, None),
    spark=lambda call, arguments: operators.low_bits(
        f"({arguments[0]} div {arguments[1]})", call.type
    ),
)


@ARITHMETIC.kernel(
    "number div number -> BIGINT",
    "Divide to a whole number, cut towards zero.",
    _resolve_div,
    spark=operator("div"),
    name="div",
)
def _div(call: Call, values: Sequence[Value], rows: int) -> Value:
    operators.refuse_zero(call, values, rows)
    left, right = operators.where_valid(values)
    problem = f"overflows {call.type.root}"
    if call.arguments[0].type.root == "DECIMAL":
        return checked(
            call,
            (left, right),
            rows,
            lambda a, b: decimals.quotient_and_rest(a, b)[0].cast(pa.int64()),
            problem,
        )
    return checked(call, (left, right), rows, pc.divide_checked, problem)


def _positive_rest(call: Written) -> Expression:
    pair = operators.numbers(call)
    return Call(operators.result_type(pair, operators.rest_type), "pmod", pair)


@ARITHMETIC.kernel(
    "pmod(number, number) -> number",
    "Give the rest of a division, not negative for a positive divisor.",
    _positive_rest,
)
def _pmod(call: Call, values: Sequence[Value], rows: int) -> Value:
    operators.refuse_zero(call, values, rows)
    if call.type.root == "DECIMAL":
        rest = decimals.quotient_and_rest(*operators.where_valid(values))[1]
        wide = decimals.relabel(rest, pa.decimal256(75, rest.type.scale))
        other = values[1].cast(pa.decimal256(75, rest.type.scale))
        moved = pc.add(wide, other)
        again = decimals.quotient_and_rest(moved, values[1])[1]
        return decimals.fit(
            call, values, pc.if_else(pc.less(rest, zero(rest.type)), again, rest), rows
        )
    left, right = numpy_of(values[0]), numpy_of(values[1])
    with np.errstate(all="ignore"):
        rest = np.fmod(left, right)
        moved = np.where(rest < 0, np.fmod(rest + right, right), rest)
    return from_numpy(moved, values, call.type.arrow, rows)
