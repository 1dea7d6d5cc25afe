"""Conditions as Arrow's scanners take them, for what a scan can leave out."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.functions.evaluation.compiled import fold
from pkray.relational.functions.text.patterns import like_prefix
from pkray.relational.plan.expressions import Call, ColumnRef, Expression, Literal

_COMPARED: dict[str, Callable[[pc.Expression, pc.Expression], pc.Expression]] = {
    "equal": lambda left, right: left == right,
    "not_equal": lambda left, right: left != right,
    "less": lambda left, right: left < right,
    "less_equal": lambda left, right: left <= right,
    "greater": lambda left, right: ~(left <= right),
    "greater_equal": lambda left, right: ~(left < right),
}


def to_filter(expression: Expression) -> pc.Expression | None:
    """Write comparisons with constants, and what joins them, as Arrow's scanners take them.

    Of parts joined by AND those are left out that cannot be written so: the filter keeps all rows
    for which the condition is true, perhaps more. None: it would keep all.
    """
    folded = fold(expression)
    parts = [_exact_filter(each) for each in _conjuncts(folded)]
    kept = [each for each in parts if each is not None]
    return reduce(lambda left, right: left & right, kept) if kept else None


def to_exact_filter(expression: Expression) -> pc.Expression | None:
    """Write a condition as Arrow's scanners take it; None where that would not be the same."""
    return _exact_filter(fold(expression))


def _conjuncts(expression: Expression) -> list[Expression]:
    if isinstance(expression, Call) and expression.function == "and":
        return [part for each in expression.arguments for part in _conjuncts(each)]
    return [expression]


def _exact_filter(expression: Expression) -> pc.Expression | None:
    if isinstance(expression, ColumnRef) and expression.type.root == "BOOLEAN":
        return pc.field(expression.name)
    if isinstance(expression, Literal) and expression.type.root == "BOOLEAN":
        return pc.scalar(pa.scalar(expression.value, pa.bool_()))
    if not isinstance(expression, Call):
        return None
    name, operands = expression.function, expression.arguments
    if name in ("and", "or", "not"):
        parts = [_exact_filter(each) for each in operands]
        known = [each for each in parts if each is not None]
        if len(known) < len(parts):
            return None
        if name == "not":
            return ~known[0]
        return reduce(
            (lambda left, right: left & right) if name == "and" else (lambda a, b: a | b), known
        )
    if name in ("is_null", "is_not_null") and isinstance(operands[0], ColumnRef):
        column = pc.field(operands[0].name)
        return column.is_null() if name == "is_null" else column.is_valid()
    if name in _COMPARED:
        return _comparison_filter(name, operands)
    if name == "in":
        return _in_filter(operands)
    return _like_filter(operands) if name == "like" else None


_TURNED = {"less": "greater", "less_equal": "greater_equal", "greater": "less",
           "greater_equal": "less_equal"}  # fmt: skip


def _comparison_filter(name: str, operands: tuple[Expression, ...]) -> pc.Expression | None:
    left, right = operands
    if isinstance(left, Literal):
        left, right, name = right, left, _TURNED.get(name, name)
    if not isinstance(left, ColumnRef) or not isinstance(right, Literal):
        return None
    if right.value is None or right.value != right.value:
        return None
    value = pc.scalar(pa.scalar(right.value, right.type.arrow))
    return _COMPARED[name](pc.field(left.name), value)


def _in_filter(operands: tuple[Expression, ...]) -> pc.Expression | None:
    column, *choices = operands
    if not isinstance(column, ColumnRef) or column.type.root in ("FLOAT", "DOUBLE"):
        return None
    values = [each.value for each in choices if isinstance(each, Literal)]
    if len(values) < len(choices) or None in values:
        return None
    known = pa.array(values, column.type.arrow)
    field = pc.field(column.name)
    return pc.if_else(field.is_valid(), field.isin(known), pa.scalar(None, pa.bool_()))


def _like_filter(operands: tuple[Expression, ...]) -> pc.Expression | None:
    column, pattern = operands[:2]
    escape = operands[2].value if len(operands) > 2 and isinstance(operands[2], Literal) else "\\"
    if not isinstance(column, ColumnRef) or not isinstance(pattern, Literal) or not pattern.value:
        return None
    prefix, any_follows = like_prefix(pattern.value, escape)
    if not any_follows or not prefix:
        return None
    return pc.starts_with(pc.field(column.name), prefix)
