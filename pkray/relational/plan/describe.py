"""One line of text a node, and one number a node: what explanations and compiled plans show."""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch
from typing import Any

from pkray.relational.plan.expressions import (
    TRUE,
    AggregateCall,
    ColumnRef,
    Expression,
    Frame,
    SortKey,
    WindowCall,
)
from pkray.relational.plan.nodes import (
    Aggregate,
    Calc,
    Deduplicate,
    Exchange,
    Expand,
    Filter,
    Hint,
    IntervalJoin,
    Join,
    Limit,
    Node,
    Normalize,
    Over,
    Project,
    RowKey,
    Scan,
    SetOperation,
    Sink,
    Slices,
    Sort,
    TemporalJoin,
    TopN,
    Unique,
    Unnest,
    Values,
    WatermarkAssign,
    Window,
)
from pkray.relational.plan.text import to_text
from pkray.scan.moment import epoch_millis


def description(node: Node) -> str:
    """Write what a node does: ``Filter(where=[a > 1])``."""
    parts = ", ".join(f"{name}=[{value}]" for name, value in _parts(node) if value)
    return f"{type(node).__name__}({parts})"


@singledispatch
def _parts(node: Node) -> list[tuple[str, str]]:
    return []


@_parts.register
def _(node: Scan) -> list[tuple[str, str]]:
    where = "" if node.condition == TRUE else to_text(node.condition, types=False)
    options = ", ".join(f"{key}={value}" for key, value in node.options)
    return [
        ("table", node.source.name),
        ("fields", _names(node.fields.names)),
        ("where", where),
        ("options", options),
        ("asOf", ", ".join(map(str, moment_of(node).values()))),
    ]


def moment_of(scan: Scan) -> dict[str, Any]:
    """Give the moment of a table that a query names, as ``Table.at`` takes it."""
    at: Mapping[str, Any] = getattr(scan.source, "at", {})
    return {key: epoch_millis(value) if key == "timestamp" else value for key, value in at.items()}


@_parts.register
def _(node: Values) -> list[tuple[str, str]]:
    return [("fields", _names(node.fields.names)), ("rows", str(len(node.rows)))]


@_parts.register
def _(node: Filter) -> list[tuple[str, str]]:
    return [("where", to_text(node.condition, types=False))]


@_parts.register
def _(node: Project) -> list[tuple[str, str]]:
    return [("select", ", ".join(_column(name, value) for name, value in node.columns))]


@_parts.register
def _(node: Calc) -> list[tuple[str, str]]:
    select = ", ".join(_column(name, value) for name, value in node.columns)
    return [("select", select), ("where", _condition(node.condition))]


@_parts.register
def _(node: Expand) -> list[tuple[str, str]]:
    sets = (_names(tuple(node.keys[index] for index in each)) for each in node.sets)
    return [("sets", ", ".join(f"({each})" for each in sets)), ("id", node.id_name)]


@_parts.register
def _(node: Aggregate) -> list[tuple[str, str]]:
    calls = ", ".join(f"{_aggregate(call)} AS {name}" for name, call in node.aggregates)
    windows = [("windows", str(node.slices.kind)), *_spans(node.slices)] if node.slices else []
    return [("groupBy", _names(node.keys)), ("select", calls), *windows]


@_parts.register
def _(node: Join) -> list[tuple[str, str]]:
    kind = f"{node.kind} null-aware" if node.null_aware else str(node.kind)
    return [
        ("joinType", kind),
        ("where", _pairs(node.left_keys, node.right_keys, node)),
        ("condition", _condition(node.condition)),
    ]


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


@_parts.register
def _(node: IntervalJoin) -> list[tuple[str, str]]:
    bounds = f"{span_text(node.lower)} to {span_text(node.upper)}"
    return [
        ("joinType", str(node.kind)),
        ("where", _pairs(node.left_keys, node.right_keys, node)),
        ("between", f"{node.left_time} - {node.right_time}: {bounds}"),
        ("condition", _condition(node.condition)),
    ]


@_parts.register
def _(node: TemporalJoin) -> list[tuple[str, str]]:
    return [
        ("joinType", str(node.kind)),
        ("where", _pairs(node.left_keys, node.right_keys, node)),
        ("asOf", node.left_time or "processing time"),
        ("versions", node.right_time or "processing time"),
        ("condition", _condition(node.condition)),
    ]


@_parts.register
def _(node: Window) -> list[tuple[str, str]]:
    return [
        ("kind", str(node.kind)),
        ("time", node.time),
        *_spans(node),
        ("partitionBy", _names(node.partition_by)),
        *([] if node.early is None else [("early", span_text(node.early))]),
        *([("lateness", span_text(node.lateness))] if node.lateness else []),
        *([("lateDelay", span_text(node.late_delay))] if node.late_delay else []),
    ]


def _spans(node: Window | Slices) -> list[tuple[str, str]]:
    numbers = ((name, getattr(node, name, 0)) for name in ("size", "step", "offset"))
    return [(name, span_text(micros)) for name, micros in numbers if micros]


@_parts.register
def _(node: Over) -> list[tuple[str, str]]:
    calls = ", ".join(f"{_window_call(call)} AS {name}" for name, call in node.calls)
    return [
        ("partitionBy", _names(node.partition_by)),
        ("orderBy", _order(node.order_by)),
        ("select", calls),
        *([("emit", "at the watermark")] if node.waits else []),
    ]


@_parts.register
def _(node: TopN) -> list[tuple[str, str]]:
    return [
        ("partitionBy", _names(node.partition_by)),
        ("orderBy", _order(node.order_by)),
        ("range", f"{node.start} to {node.end}"),
        ("rank", node.rank_name or ""),
    ]


@_parts.register
def _(node: Deduplicate) -> list[tuple[str, str]]:
    return [
        ("keep", "first" if node.keep_first else "last"),
        ("key", _names(node.keys)),
        ("order", node.order_by or "arrival"),
    ]


@_parts.register
def _(node: SetOperation) -> list[tuple[str, str]]:
    return [("kind", f"{node.kind} all" if node.all else str(node.kind))]


@_parts.register
def _(node: Sort) -> list[tuple[str, str]]:
    return [("orderBy", _order(node.order_by))]


@_parts.register
def _(node: Limit) -> list[tuple[str, str]]:
    return [("count", "" if node.count is None else str(node.count)), ("offset", str(node.offset))]


@_parts.register
def _(node: Unnest) -> list[tuple[str, str]]:
    call = f"{node.function}({_names(node.arguments)})"
    return [("call", call), ("as", _names(node.names)), ("outer", "true" if node.outer else "")]


@_parts.register
def _(node: Hint) -> list[tuple[str, str]]:
    return [("name", node.name), *node.options]


@_parts.register
def _(node: WatermarkAssign) -> list[tuple[str, str]]:
    return [("rowtime", node.time), ("watermark", to_text(node.delay, types=False))]


@_parts.register
def _(node: Normalize) -> list[tuple[str, str]]:
    return [("key", _names(node.keys))]


@_parts.register
def _(node: Unique) -> list[tuple[str, str]]:
    return [("key", _names(node.keys))]


@_parts.register
def _(node: RowKey) -> list[tuple[str, str]]:
    return [("column", node.name), ("key", _names(node.keys) or "the row and its number")]


@_parts.register
def _(node: Exchange) -> list[tuple[str, str]]:
    return [("distribution", f"hash[{_names(node.keys)}]" if node.keys else "single")]


@_parts.register
def _(node: Sink) -> list[tuple[str, str]]:
    conflict = node.on_conflict or ""
    return [("table", node.table), ("fields", _names(node.target)), ("onConflict", conflict)]


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names)


def _column(name: str, value: Expression) -> str:
    if isinstance(value, ColumnRef) and value.name == name:
        return name
    return f"{to_text(value, types=False)} AS {name}"


def _condition(condition: Expression) -> str:
    return "" if condition == TRUE else to_text(condition, types=False)


def _pairs(
    left: tuple[str, ...], right: tuple[str, ...], node: Join | IntervalJoin | TemporalJoin
) -> str:
    names = dict(zip(node.right.fields.names, node.right_names, strict=True))
    safe = node.null_safe if isinstance(node, Join) else ()
    equals = [" <=> " if each else " = " for each in safe] or [" = "] * len(left)
    pairs = zip(left, equals, right, strict=True)
    return " AND ".join(f"{one}{equal}{names[other]}" for one, equal, other in pairs)


def _order(keys: tuple[SortKey, ...]) -> str:
    return ", ".join(_sort_key(key) for key in keys)


def _sort_key(key: SortKey) -> str:
    direction = "DESC" if key.descending else "ASC"
    return f"{key.column} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _aggregate(call: AggregateCall) -> str:
    name = call.udf.name if call.udf else call.function.upper()
    arguments = [*call.arguments, *(to_text(each, types=False) for each in call.parameters)]
    inside = ", ".join(arguments) if arguments else "*" if call.function == "count" else ""
    text = f"{name}({'DISTINCT ' if call.distinct else ''}{inside})"
    if call.order_by:
        text += f" WITHIN GROUP (ORDER BY {_order(call.order_by)})"
    return f"{text} FILTER {call.filter}" if call.filter else text


def _window_call(call: WindowCall) -> str:
    arguments = [*call.arguments, *(to_text(each, types=False) for each in call.parameters)]
    return f"{call.function.upper()}({', '.join(arguments)}) {_frame(call.frame)}"


def _frame(frame: Frame) -> str:
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
