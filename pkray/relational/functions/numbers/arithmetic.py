"""Operators: sums, differences, products, on numbers and times."""

from collections.abc import Sequence
from typing import Any

import pyarrow.compute as pc

from pkray.columns.keys import one_zero
from pkray.relational.functions.coercion import FLOATS
from pkray.relational.functions.comparison import operator
from pkray.relational.functions.function import Family, Value
from pkray.relational.functions.numbers import decimals, operators
from pkray.relational.functions.values import as_array, checked
from pkray.relational.plan.expressions import Call

ARITHMETIC = Family("arithmetic")

_EXACT: dict[str, operators.Exact] = {
    "add": decimals.add,
    "subtract": decimals.subtract,
    "multiply": decimals.multiply,
}
_CHECKED: dict[str, operators.Exact] = {
    "add": pc.add_checked,
    "subtract": pc.subtract_checked,
    "multiply": pc.multiply_checked,
}
_UNCHECKED: dict[str, operators.Exact] = {
    "add": pc.add,
    "subtract": pc.subtract,
    "multiply": pc.multiply,
}


def _operate(call: Call, values: Sequence[Value], rows: int) -> Value:
    root = call.type.root
    if root in FLOATS:
        return _UNCHECKED[call.function](values[0], values[1])
    if root == "DECIMAL":
        return decimals.fit(call, values, _EXACT[call.function](values[0], values[1]), rows)
    return checked(call, values, rows, _CHECKED[call.function], f"overflows {root}")


def _operate_wrapping(call: Call, values: Sequence[Value], rows: int) -> Value:
    name = call.function.removesuffix(operators.WRAPPING)
    if call.type.root == "DECIMAL":
        exact = _EXACT[name](values[0], values[1])
        return operators.null_or_refused(call, values, exact, rows)
    return _UNCHECKED[name](values[0], values[1])


def define_operator(name: str, symbol: str, about: str, kernel: Any, wrapping: Any) -> None:
    """Define an operator, and the same that wraps."""
    ARITHMETIC.add(
        f"number {symbol} number -> number",
        about,
        operators.operates,
        kernel,
        operators.of_decimals(name),
        spark=operator(symbol),
        synonyms=(symbol,),
        name=name,
    )
    ARITHMETIC.add_inner(
        name + operators.WRAPPING,
        f"{about[:-1]}; integers lose their high bits, decimals that are too large are NULL.",
        wrapping,
        operators.of_decimals(name),
        spark=operators.spark_wrapping(symbol),
        fallible=name in ("divide", "mod"),
    )


define_operator("add", "+", "Add two numbers.", _operate, _operate_wrapping)
define_operator("subtract", "-", "Subtract a number.", _operate, _operate_wrapping)
define_operator("multiply", "*", "Multiply two numbers.", _operate, _operate_wrapping)


def _normalize_zero_spark(call: Call, arguments: Sequence[str]) -> str:
    """Write it; inside of nested keys Spark does it itself."""
    if call.type.is_nested:
        return arguments[0]
    return f"({arguments[0]} + CAST(0 AS {call.type.root}))"


ARITHMETIC.infallible.add_inner(
    "normalize_zero",
    "Turn -0.0 into 0.0, so that both are one key.",
    lambda call, values, rows: one_zero(as_array(values[0], rows)),
    lambda arguments: arguments[0].type,
    spark=_normalize_zero_spark,
)
