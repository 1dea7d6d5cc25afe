"""Functions of numbers: the operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.coercion import (
    BIGINT,
    DOUBLE,
    FLOATS,
    INT,
    NUMBERS,
    any_nullable,
    arithmetic_decimal,
    as_decimal,
    cast_to,
    is_untyped_null,
    wider,
)
from pkray.relational.functions.comparison import operator
from pkray.relational.functions.function import Function, Resolver, SparkText, Value, define
from pkray.relational.functions.numbers import decimals
from pkray.relational.functions.signatures import check_count, number, takes, wrong_argument
from pkray.relational.functions.values import (
    all_scalars,
    checked,
    from_numpy,
    numpy_of,
    refuse,
    unit,
    zero,
)
from pkray.relational.plan.expressions import Call, Expression
from pkray.schema.types import INTEGERS, STRINGS, DataType

DecimalRule: TypeAlias = Callable[[int, int, int, int], DataType]
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ")


def _sum_type(p1: int, s1: int, p2: int, s2: int) -> DataType:
    scale = max(s1, s2)
    return arithmetic_decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)


def _product_type(p1: int, s1: int, p2: int, s2: int) -> DataType:
    return arithmetic_decimal(p1 + p2 + 1, s1 + s2)


def _quotient_type(p1: int, s1: int, p2: int, s2: int) -> DataType:
    scale = max(6, s1 + p2 + 1)
    return arithmetic_decimal(p1 - s1 + s2 + scale, scale)


def _rest_type(p1: int, s1: int, p2: int, s2: int) -> DataType:
    scale = max(s1, s2)
    return arithmetic_decimal(min(p1 - s1, p2 - s2) + scale, scale)


_DECIMALS: dict[str, DecimalRule] = {
    "add": _sum_type,
    "subtract": _sum_type,
    "multiply": _product_type,
    "divide": _quotient_type,
    "mod": _rest_type,
    "pmod": _rest_type,
}
WRAPPING = "_wrapping"


def result_type(arguments: tuple[Expression, ...], rule: DecimalRule | None) -> DataType:
    """Give the type of an operator's result from the types of its two numbers."""
    left, right = arguments[0].type, arguments[1].type
    nullable = any_nullable(arguments)
    if rule is None or left.root != "DECIMAL" or right.root != "DECIMAL":
        return left.with_nullable(nullable)
    given = rule(left.precision or 0, left.scale or 0, right.precision or 0, right.scale or 0)
    return given.with_nullable(nullable)


def numbers(
    name: str, arguments: tuple[Expression, ...], dialect: Dialect
) -> tuple[Expression, Expression]:
    """Bring two numbers together: to one type, or both to decimals with digits of their own.

    Raises:
        QueryError: one is no number.
    """
    check_count(name, arguments, 2, 2)
    left, right = arguments
    if is_untyped_null(left):
        left = cast_to(left, INT if is_untyped_null(right) else right.type)
    if is_untyped_null(right):
        right = cast_to(right, left.type)
    for position, each in enumerate((left, right)):
        if each.type.root not in (*NUMBERS, *STRINGS):
            raise wrong_argument(name, position, each, "numbers")
    if left.type.root in STRINGS and right.type.root in STRINGS:
        left, right = cast_to(left, DOUBLE), cast_to(right, DOUBLE)
    if "DECIMAL" in (left.type.root, right.type.root):
        digits = as_decimal(left, dialect), as_decimal(right, dialect)
        if digits[0] and digits[1]:
            return cast_to(left, digits[0]), cast_to(right, digits[1])
    common = wider(left.type, right.type, dialect)
    assert common is not None
    return cast_to(left, common), cast_to(right, common)


def _operates(name: str) -> Resolver:
    """Resolve an operator; the flink dialect's wraps integers and gives NULL for large decimals."""

    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        special = _of_times(name, arguments, dialect)
        if special is not None:
            return special
        pair = numbers(name, arguments, dialect)
        chosen = name + WRAPPING if dialect is Dialect.FLINK else name
        return Call(result_type(pair, _DECIMALS[name]), chosen, pair)

    return resolve


def _of_times(name: str, arguments: tuple[Expression, ...], dialect: Dialect) -> Expression | None:
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


def _of_decimals(rule: str) -> Callable[[tuple[Expression, ...]], DataType]:
    return lambda arguments: result_type(arguments, _DECIMALS[rule])


Exact: TypeAlias = Callable[[Value, Value], Value]
_EXACT: dict[str, Exact] = {
    "add": decimals.add,
    "subtract": decimals.subtract,
    "multiply": decimals.multiply,
}
_CHECKED: dict[str, Exact] = {
    "add": pc.add_checked,
    "subtract": pc.subtract_checked,
    "multiply": pc.multiply_checked,
}
_UNCHECKED: dict[str, Exact] = {"add": pc.add, "subtract": pc.subtract, "multiply": pc.multiply}


def _operate(call: Call, values: Sequence[Value], rows: int) -> Value:
    root = call.type.root
    if root in FLOATS:
        return _UNCHECKED[call.function](values[0], values[1])
    if root == "DECIMAL":
        return decimals.fit(call, values, _EXACT[call.function](values[0], values[1]), rows)
    return checked(call, values, rows, _CHECKED[call.function], f"overflows {root}")


def _operate_wrapping(call: Call, values: Sequence[Value], rows: int) -> Value:
    name = call.function.removesuffix(WRAPPING)
    if call.type.root == "DECIMAL":
        exact = _EXACT[name](values[0], values[1])
        return _null_or_refused(call, values, exact, rows)
    return _UNCHECKED[name](values[0], values[1])


def _null_or_refused(call: Call, values: Sequence[Value], exact: Value, rows: int) -> Value:
    if not call.type.nullable:
        return decimals.fit(call, values, exact, rows)
    return decimals.fit_or_null(exact, call.type.arrow)


def _refuse_zero(call: Call, values: Sequence[Value], rows: int) -> None:
    found = pc.equal(values[1], zero(values[1].type))
    if isinstance(found, pa.Scalar) and not found.as_py():
        return
    refuse(call, values, pc.and_(found, pc.is_valid(values[0])), "divides by zero", rows)


def _where_valid(values: Sequence[Value]) -> tuple[Value, Value]:
    """Make the divisor 1 where the quotient is NULL anyway."""
    left, right = values
    if isinstance(left, pa.Scalar):
        return left, right if left.is_valid else pc.if_else(True, unit(right.type), right)
    if left.null_count:
        right = pc.if_else(pc.is_valid(left), right, unit(right.type))
    return left, right


def _divide(call: Call, values: Sequence[Value], rows: int) -> Value:
    _refuse_zero(call, values, rows)
    if call.type.root != "DECIMAL":
        return pc.divide(values[0], values[1])
    return decimals.fit(call, values, _quotient(call, values, rows), rows)


def _divide_wrapping(call: Call, values: Sequence[Value], rows: int) -> Value:
    if call.type.root != "DECIMAL":
        return pc.divide(values[0], values[1])
    _refuse_zero(call, values, rows)
    return _null_or_refused(call, values, _quotient(call, values, rows), rows)


def _quotient(call: Call, values: Sequence[Value], rows: int) -> Value:
    left, right = _where_valid(values)
    scale = call.type.scale or 0
    problem = f"has more digits than {call.type}"
    return checked(call, (left, right), rows, lambda a, b: decimals.divide(a, b, scale), problem)


def _divide_truncating(call: Call, values: Sequence[Value], rows: int) -> Value:
    _refuse_zero(call, values, rows)
    left, right = _where_valid(values)
    if all_scalars(values) and not (left.is_valid and right.is_valid):
        return pa.scalar(None, call.type.arrow)
    quotient = pc.divide(left, right)
    least = _least(call.type)
    wrapped = pc.and_(pc.equal(left, least), pc.equal(right, pa.scalar(-1, right.type)))
    return pc.if_else(wrapped, least, quotient)


def _div(call: Call, values: Sequence[Value], rows: int) -> Value:
    _refuse_zero(call, values, rows)
    left, right = _where_valid(values)
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


def _least(kind: DataType) -> pa.Scalar:
    return pa.scalar(np.iinfo(kind.arrow.to_pandas_dtype()).min, kind.arrow)


def _mod(call: Call, values: Sequence[Value], rows: int) -> Value:
    _refuse_zero(call, values, rows)
    return _rest(call, values, rows)


def _mod_wrapping(call: Call, values: Sequence[Value], rows: int) -> Value:
    if call.type.root not in FLOATS:
        _refuse_zero(call, values, rows)
    return _rest(call, values, rows)


def _rest(call: Call, values: Sequence[Value], rows: int) -> Value:
    """Give the rest with the sign of what is divided."""
    if call.type.root == "DECIMAL":
        left, right = _where_valid(values)
        return decimals.fit(call, values, decimals.quotient_and_rest(left, right)[1], rows)
    with np.errstate(all="ignore"):
        rest = np.fmod(numpy_of(values[0]), numpy_of(values[1]))
    return from_numpy(rest, values, call.type.arrow, rows)


def _pmod(call: Call, values: Sequence[Value], rows: int) -> Value:
    _refuse_zero(call, values, rows)
    if call.type.root == "DECIMAL":
        rest = decimals.quotient_and_rest(*_where_valid(values))[1]
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


_BITS_LOST = {"TINYINT": 56, "SMALLINT": 48, "INT": 32}
_TRY = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}


def _low_bits(value: str, kind: DataType) -> str:
    """Write the low bits of a BIGINT in Spark SQL, as an integer of a narrower type.

    Raises:
        NotImplementedError: the type is BIGINT.
    """
    bits = _BITS_LOST.get(kind.root)
    if bits is None:
        raise NotImplementedError
    return f"CAST(shiftright(shiftleft({value}, {bits}), {bits}) AS {kind.root})"


def _wide(value: str) -> str:
    return f"CAST({value} AS BIGINT)"


def _spark_wrapping(symbol: str) -> SparkText:
    def write(call: Call, arguments: Sequence[str]) -> str:
        left, right = arguments
        if call.type.root in FLOATS and symbol in _TRY:
            return f"({left} {symbol} {right})"
        if call.type.root == "DECIMAL" and symbol in _TRY and call.type.nullable:
            return f"{_TRY[symbol]}({left}, {right})"
        if symbol == "%" and call.type.root in INTEGERS:
            return f"({left} % {right})"
        return _low_bits(f"({_wide(left)} {symbol} {_wide(right)})", call.type)

    return write


def _define_operator(name: str, symbol: str, about: str, kernel: Any, wrapping: Any) -> None:
    define(
        Function(
            name,
            f"number {symbol} number -> number",
            about,
            _operates(name),
            kernel,
            operator(symbol),
            synonyms=(symbol,),
            family="arithmetic",
            typing=_of_decimals(name),
        )
    )
    define(
        Function(
            name + WRAPPING,
            "",
            f"{about[:-1]}; integers lose their high bits, decimals that are too large are NULL.",
            None,
            wrapping,
            _spark_wrapping(symbol),
            family="arithmetic",
            fallible=name in ("divide", "mod"),
            typing=_of_decimals(name),
        )
    )


def _resolve_divide(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    left, right = numbers("divide", arguments, dialect)
    both_integers = left.type.root in INTEGERS
    if dialect is Dialect.FLINK and both_integers:
        return Call(result_type((left, right), None), "divide_truncating", (left, right))
    if left.type.root != "DECIMAL" and dialect is Dialect.SPARK:
        left, right = cast_to(left, DOUBLE), cast_to(right, DOUBLE)
    name = "divide" if dialect is Dialect.SPARK else "divide_wrapping"
    return Call(result_type((left, right), _quotient_type), name, (left, right))


def _resolve_div(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    left, right = numbers("div", arguments, dialect)
    if left.type.root != "DECIMAL":
        left, right = cast_to(left, BIGINT), cast_to(right, BIGINT)
    return Call(BIGINT.with_nullable(any_nullable((left, right))), "div", (left, right))


_define_operator("add", "+", "Add two numbers.", _operate, _operate_wrapping)
_define_operator("subtract", "-", "Subtract a number.", _operate, _operate_wrapping)
_define_operator("multiply", "*", "Multiply two numbers.", _operate, _operate_wrapping)
_define_operator(
    "mod", "%", "Give the rest of a division, with the sign of the dividend.", _mod, _mod_wrapping
)
define(
    Function(
        "divide",
        "number / number -> DOUBLE | DECIMAL",
        "Divide a number; integers give DOUBLE (in the flink dialect an integer).",
        _resolve_divide,
        _divide,
        operator("/"),
        synonyms=("/",),
        family="arithmetic",
        typing=_of_decimals("divide"),
    )
)
define(
    Function(
        "divide_wrapping",
        "",
        "Divide numbers; decimals that are too large are NULL, a float divided by zero infinite.",
        None,
        _divide_wrapping,
        function.NO_SPARK,
        family="arithmetic",
        typing=_of_decimals("divide"),
    )
)
define(
    Function(
        "divide_truncating",
        "",
        "Divide integers; the quotient is cut towards zero and wraps.",
        None,
        _divide_truncating,
        lambda call, arguments: _low_bits(f"({arguments[0]} div {arguments[1]})", call.type),
        family="arithmetic",
        typing=lambda arguments: result_type(arguments, None),
    )
)
define(
    Function(
        "div",
        "number div number -> BIGINT",
        "Divide to a whole number, cut towards zero.",
        _resolve_div,
        _div,
        operator("div"),
        family="arithmetic",
    )
)
define(
    Function(
        "pmod",
        "pmod(number, number) -> number",
        "Give the rest of a division, not negative for a positive divisor.",
        lambda arguments, dialect: _positive_rest(arguments, dialect),
        _pmod,
        family="arithmetic",
    )
)


def _positive_rest(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    pair = numbers("pmod", arguments, dialect)
    return Call(result_type(pair, _rest_type), "pmod", pair)


# One number


def _one_number(name: str) -> Resolver:
    plain = takes(name, number, gives=lambda arguments: arguments[0].type)
    wrapping = takes(name + WRAPPING, number, gives=lambda arguments: arguments[0].type)

    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        wraps = dialect is Dialect.FLINK and arguments and arguments[0].type.root in INTEGERS
        return (wrapping if wraps else plain)(arguments, dialect)

    return resolve


def _negative(call: Call, values: Sequence[Value], rows: int) -> Value:
    compute = pc.negate if call.function.endswith(WRAPPING) else pc.negate_checked
    if call.type.root in (*FLOATS, "DECIMAL"):
        return pc.negate(values[0])
    return checked(call, values, rows, compute, f"overflows {call.type.root}")


def _abs(call: Call, values: Sequence[Value], rows: int) -> Value:
    compute = pc.abs if call.function.endswith(WRAPPING) else pc.abs_checked
    if call.type.root in (*FLOATS, "DECIMAL"):
        return pc.abs(values[0])
    return checked(call, values, rows, compute, f"overflows {call.type.root}")


def _spark_one_wrapping(call: Call, arguments: Sequence[str]) -> str:
    name = call.function.removesuffix(WRAPPING)
    return _low_bits(f"{name}({_wide(arguments[0])})", call.type)


def _minus(call: Call, arguments: Sequence[str]) -> str:
    return f"(- {arguments[0]})"


for _name, _usage, _about, _kernel, _spark in (
    ("negative", "- number -> number", "Turn the sign of a number.", _negative, _minus),
    ("abs", "abs(number) -> number", "Give a number without its sign.", _abs, None),
):
    define(
        Function(
            _name,
            _usage,
            _about,
            _one_number(_name),
            _kernel,
            _spark,
            family="arithmetic",
        )
    )
    define(
        Function(
            _name + WRAPPING,
            "",
            f"{_about[:-1]}; the least integer stays.",
            None,
            _kernel,
            _spark_one_wrapping,
            family="arithmetic",
            fallible=False,
            typing=lambda arguments: arguments[0].type,
        )
    )


def _resolve_positive(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("positive", arguments, 1, 1)
    return number.taken("positive", arguments, 0, dialect)


def _as_given(call: Call, values: Sequence[Value], rows: int) -> Value:
    return values[0]


define(
    Function(
        "positive",
        "+ number -> number",
        "Give a number as it is.",
        _resolve_positive,
        _as_given,
        family="arithmetic",
        fallible=False,
    )
)
define(
    Function(
        "normalize_zero",
        "",
        "Turn -0.0 into 0.0, so that both are one key.",
        None,
        lambda call, values, rows: pc.add(values[0], pa.scalar(0.0, values[0].type)),
        lambda call, arguments: f"({arguments[0]} + CAST(0 AS {call.type.root}))",
        family="arithmetic",
        fallible=False,
        typing=lambda arguments: arguments[0].type,
    )
)
