"""Aggregates of overlapping windows over slices: each row is aggregated once.

A hopping or cumulating window is a row of slices, which are tumbling windows. Where nothing between
the window and its aggregate looks at the bounds, and what is aggregated of slices can be merged,
the rows come in slices, and the aggregate puts windows together of them.
"""

from dataclasses import replace
from math import gcd

from pkray.relational.plan import nodes
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.changelog_modes import change_kinds
from pkray.relational.plan.expressions import AggregateCall, ColumnRef
from pkray.relational.plan.node import INSERT
from pkray.schema.types import DataType

MOST_SLICES = 1 << 14
"""Slices of a window; a window and its step that have less in common are aggregated as they are."""
_NUMBERED = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "DATE", "TIME")


def in_slices(node: nodes.Node) -> nodes.Node:
    """Aggregate overlapping windows over slices, where that gives the same."""
    if not isinstance(node, nodes.Aggregate) or node.slices or not node.is_windowed():
        return node
    bounds = node.input.window_bounds()
    assert bounds is not None
    window = bounds.window
    size = _slice(window)
    if not size or not _merges(node) or not _is_above(node.input, window):
        return node
    if any(column in bounds.columns for _, call in node.aggregates for column in call.columns()):
        return node
    below = _with_window(
        node.input, replace(window, kind=nodes.WindowKind.TUMBLE, size=size, step=0)
    )
    return replace(node, input=below, slices=nodes.Slices(window.kind, window.size, window.step))


def without_slices(node: nodes.Aggregate) -> nodes.Aggregate:
    """Aggregate windows as they are."""
    bounds = node.input.window_bounds()
    if node.slices is None or bounds is None:
        return node
    said = node.slices
    whole = replace(bounds.window, kind=said.kind, size=said.size, step=said.step)
    return replace(node, input=_with_window(node.input, whole), slices=None)


def _slice(window: nodes.Window) -> int:
    """Give the size of a window's slices; 0 where it has none."""
    if window.is_updated:
        return 0
    if window.kind is nodes.WindowKind.CUMULATE:
        size = window.step
    elif window.kind is nodes.WindowKind.HOP and window.step < window.size:
        size = gcd(window.size, window.step)
    else:
        return 0
    return size if 1 < window.size // size <= MOST_SLICES else 0


def _merges(node: nodes.Aggregate) -> bool:
    inserts = change_kinds(node.input) == INSERT
    return all(_is_merged(node, call, inserts) for _, call in node.aggregates)


def _is_merged(node: nodes.Aggregate, call: AggregateCall, inserts: bool) -> bool:
    known = facts(call.function)
    if call.distinct or call.order_by or not known.merges:
        return False
    if known.takes_back:
        return True
    return inserts and _is_numbered(node.input.fields[call.arguments[0]].type)


def _is_numbered(kind: DataType) -> bool:
    return kind.root in _NUMBERED or kind.root.startswith("TIMESTAMP")


def _is_above(node: nodes.Node, window: nodes.Window) -> bool:
    """Whether what is between only passes the window's bounds on."""
    while node is not window:
        if isinstance(node, nodes.Expand):
            bounds = node.input.window_bounds()
            if bounds is None or bounds.columns & set(node.keys).difference(
                node.keys_in_all_sets()
            ):
                return False
        elif isinstance(node, nodes.Filter | nodes.Project):
            if not _passes_bounds(node):
                return False
        elif not isinstance(node, nodes.Exchange | nodes.Hint):
            return False
        (node,) = node.inputs
    return True


def _passes_bounds(node: nodes.Filter | nodes.Project) -> bool:
    bounds = node.input.window_bounds()
    assert bounds is not None
    computed = (value for value in node.expressions() if not isinstance(value, ColumnRef))
    return not any(value.columns() & bounds.columns for value in computed)


def _with_window(node: nodes.Node, window: nodes.Window) -> nodes.Node:
    if isinstance(node, nodes.Window):
        return window
    return node.with_inputs(_with_window(node.inputs[0], window))
