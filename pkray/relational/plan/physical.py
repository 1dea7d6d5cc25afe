"""The plan as it runs continuously: with exchanges, normalization, and one node a computation."""

from __future__ import annotations

from dataclasses import replace

from pkray.relational.plan.changelog_modes import changelog_modes
from pkray.relational.plan.expressions import TRUE, ColumnRef, Expression
from pkray.relational.plan.nodes import (
    Aggregate,
    Calc,
    Deduplicate,
    Distinct,
    Exchange,
    Filter,
    IntervalJoin,
    Join,
    Limit,
    Node,
    Normalize,
    Over,
    Project,
    Scan,
    SetKind,
    SetOperation,
    Sort,
    TemporalJoin,
    TopN,
    Window,
    WindowKind,
)
from pkray.relational.plan.windowing import window_bounds


def to_physical(plan: Node, *, before: bool) -> Node:
    """Put exchanges, normalization and computations into a logical plan.

    Args:
        before: whether what takes the plan's changes needs the rows before updates.
    """
    placed = plan.transform(_with_exchange).transform(_fused)
    modes = changelog_modes(placed, before=before)

    def normalized(node: Node) -> Node:
        lacks = isinstance(node, Scan) and node.source.mode == "upsert"
        if not lacks or not modes[id(node)].before:
            return node
        assert isinstance(node, Scan)
        return _normalized(node)

    return placed.transform(normalized)


def _normalized(scan: Scan) -> Node:
    """Complete a source's changes by its key, which has to be read for that."""
    key, names = scan.source.primary_key, scan.fields.names
    lacking = tuple(name for name in key if name not in names)
    whole = replace(scan, columns=(*names, *lacking)) if lacking else scan
    complete = Normalize(Exchange(whole, key), key)
    if not lacking:
        return complete
    return Calc(
        complete, tuple((each.name, ColumnRef(each.type, each.name)) for each in scan.fields)
    )


def to_logical(plan: Node) -> Node:
    """Take out again what `to_physical` put in: what is left runs bounded."""
    return plan.transform(_bounded)


def _bounded(node: Node) -> Node:
    match node:
        case Exchange() | Normalize():
            return node.input
        case Calc():
            filtered = _filtered(node.input, node.condition)
            return filtered if _is_identity(node) else Project(filtered, node.columns)
    return node


def _filtered(node: Node, condition: Expression) -> Node:
    return node if condition == TRUE else Filter(node, condition)


def _is_identity(node: Project) -> bool:
    columns = tuple((name, ColumnRef(value.type, name)) for name, value in node.columns)
    return columns == node.columns and node.input.fields.names == node.fields.names


def _fused(node: Node) -> Node:
    """Make one computation of a projection and the filter below it."""
    match node:
        case Calc():
            return node
        case Project(input=Calc() as below) if _is_identity(below):
            return Calc(below.input, node.columns, below.condition)
        case Project():
            return Calc(node.input, node.columns)
        case Filter():
            columns = tuple((each.name, ColumnRef(each.type, each.name)) for each in node.fields)
            return Calc(node.input, columns, node.condition)
    return node


def _with_exchange(node: Node) -> Node:
    """Bring together the rows that an operator with state sees together."""
    match node:
        case Aggregate():
            return node.with_inputs(Exchange(node.input, _without_bounds(node.input, node.keys)))
        case TopN() | Over():
            keys = _without_bounds(node.input, node.partition_by)
            return node.with_inputs(Exchange(node.input, keys))
        case Deduplicate():
            return node.with_inputs(Exchange(node.input, _without_bounds(node.input, node.keys)))
        case Distinct():
            return node.with_inputs(Exchange(node.input, node.fields.names))
        case Join():
            return node.with_inputs(
                Exchange(node.left, _without_bounds(node.left, node.left_keys)),
                Exchange(node.right, _without_bounds(node.right, node.right_keys)),
            )
        case IntervalJoin() | TemporalJoin():
            return node.with_inputs(
                Exchange(node.left, node.left_keys), Exchange(node.right, node.right_keys)
            )
        case SetOperation() if not (node.kind is SetKind.UNION and node.all):
            return node.with_inputs(*(Exchange(each, each.fields.names) for each in node.inputs))
        case Window(kind=WindowKind.SESSION):
            return node.with_inputs(Exchange(node.input, node.partition_by))
        case Sort():
            return node.with_inputs(Exchange(node.input, ()))
        case Limit() if not isinstance(node.input, Sort):
            return node.with_inputs(Exchange(node.input, ()))
    return node


def _without_bounds(node: Node, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out the bounds of windows: rows of one key stay in one place for all windows."""
    bounds = window_bounds(node)
    if bounds is None or not bounds.are_in(keys):
        return keys
    return tuple(key for key in keys if key not in bounds.start | bounds.end)
