"""One line of text a node: what explanations and compiled plans show."""

from typing import Any

from pkray.relational.plan import expressions as ir
from pkray.relational.plan.node import Node
from pkray.relational.plan.text import to_text


def description(node: Node) -> str:
    """Write what a node does: ``Filter(where=[a > 1])``."""
    parts = ", ".join(f"{name}=[{value}]" for name, value in node.described() if value)
    return f"{type(node).__name__}({parts})"


def span_text(micros: int) -> str:
    """Write a span of time in the largest unit of which it is a whole number: ``10 min``."""
    if not micros:
        return "0 s"
    unit, size = next(each for each in _UNITS if micros % each[1] == 0)
    return f"{micros // size} {unit}"


_UNITS = (
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("µs", 1),
)


def spans(windows: Any) -> list[tuple[str, str]]:
    """Write size, step and offset of windows, those that they have."""
    numbers = ((name, getattr(windows, name, 0)) for name in ("size", "step", "offset"))
    return [(name, span_text(micros)) for name, micros in numbers if micros]


def names(columns: tuple[str, ...]) -> str:
    """Write columns."""
    return ", ".join(columns)


def text_of(value: ir.Expression) -> str:
    """Write an expression without types."""
    return to_text(value, types=False)


def column(name: str, value: ir.Expression) -> str:
    """Write a computed column."""
    is_same = isinstance(value, ir.ColumnRef) and value.name == name
    return name if is_same else f"{text_of(value)} AS {name}"


def condition(value: ir.Expression) -> str:
    """Write a condition; empty if it is always true."""
    return "" if value == ir.TRUE else text_of(value)


def order(keys: tuple[ir.SortKey, ...]) -> str:
    """Write an order."""
    return ", ".join(_sort_key(key) for key in keys)


def _sort_key(key: ir.SortKey) -> str:
    direction = "DESC" if key.descending else "ASC"
    return f"{key.column} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def aggregate(call: ir.AggregateCall) -> str:
    """Write the call of an aggregate."""
    name = call.udf.name if call.udf else call.function.upper()
    arguments = [*call.arguments, *(text_of(each) for each in call.parameters)]
    inside = ", ".join(arguments) if arguments else "*" if call.function == "count" else ""
    text = f"{name}({'DISTINCT ' if call.distinct else ''}{inside})"
    if call.order_by:
        text += f" WITHIN GROUP (ORDER BY {order(call.order_by)})"
    return f"{text} FILTER {call.filter}" if call.filter else text


def window_call(call: ir.WindowCall) -> str:
    """Write the call of a window function."""
    arguments = [*call.arguments, *(text_of(each) for each in call.parameters)]
    return f"{call.function.upper()}({', '.join(arguments)}) {_frame(call.frame)}"


def _frame(frame: ir.Frame) -> str:
    return f"{frame.unit.upper()} {_bound(frame.start, 'PRECEDING')} TO " + _bound(
        frame.end, "FOLLOWING"
    )


def _bound(bound: int | float | None, side: str) -> str:
    if bound is None:
        return f"UNBOUNDED {side}"
    if bound == 0:
        return "CURRENT ROW"
    return f"{abs(bound)} {'PRECEDING' if bound < 0 else 'FOLLOWING'}"


def row_type(node: Node) -> str:
    """Write the type of a node's rows: ``ROW<`a` INT, `b` STRING>``."""
    columns = ", ".join(f"`{each.name}` {each.type}" for each in node.fields)
    return f"ROW<{columns}>"
