"""Which columns of a node are the bounds of windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pkray.relational.plan.expressions import ColumnRef
from pkray.relational.plan.nodes import (
    Aggregate,
    Deduplicate,
    Exchange,
    Expand,
    Filter,
    Hint,
    IntervalJoin,
    Join,
    JoinKind,
    Node,
    Over,
    Project,
    TemporalJoin,
    TopN,
    Window,
    WindowKind,
)


@dataclass(frozen=True)
class WindowBounds:
    """Columns that hold a window's start and end in each row, and its last moment."""

    window: Window
    start: frozenset[str]
    end: frozenset[str]
    time: frozenset[str] = frozenset()

    @property
    def columns(self) -> frozenset[str]:
        """List all of them."""
        return self.start | self.end | self.time

    def renamed(self, change: Callable[[frozenset[str]], frozenset[str]]) -> WindowBounds:
        """Give the same bounds in other columns."""
        return WindowBounds(self.window, *map(change, (self.start, self.end, self.time)))

    def are_in(self, columns: tuple[str, ...]) -> bool:
        """Whether rows that agree in the columns are of one window."""
        return bool(self.start & set(columns)) and bool(self.end & set(columns))


def window_bounds(node: Node) -> WindowBounds | None:
    """Find the windows that the rows of a node belong to; None where they belong to none."""
    match node:
        case Window():
            return WindowBounds(node, *(frozenset({name}) for name in node.names))
        case Project():
            return _projected(node)
        case Aggregate():
            bounds = window_bounds(node.input)
            return _kept(bounds, node.keys)
        case Join() if is_windowed_join(node) or not node.kind.keeps_right:
            return _joined(node)
        case Expand():
            return _expanded(node)
        case Filter() | Exchange() | Hint() | TopN() | Deduplicate():
            return window_bounds(node.input)
    return None


def is_windowed(node: Node) -> bool:
    """Whether an operator works within windows, so that its state goes when they have fired."""
    match node:
        case Aggregate():
            keys: tuple[str, ...] = node.keys
        case TopN():
            keys = node.partition_by
        case Deduplicate():
            keys = node.keys
        case Join():
            return is_windowed_join(node)
        case _:
            return False
    bounds = window_bounds(node.inputs[0])
    return bounds is not None and bounds.are_in(keys)


def updates_windows(node: Node) -> bool:
    """Whether an operator within windows is to give results that change."""
    if isinstance(node, Window):
        return node.is_updated
    bounds = window_bounds(node.inputs[0]) if is_windowed(node) else None
    return bounds is not None and bounds.window.is_updated


def is_windowed_join(node: Join) -> bool:
    """Whether both sides are of windows and rows are paired within them."""
    left, right = window_bounds(node.left), window_bounds(node.right)
    if left is None or right is None:
        return False
    pairs = list(zip(node.left_keys, node.right_keys, strict=True))
    starts = any(a in left.start and b in right.start for a, b in pairs)
    return starts and any(a in left.end and b in right.end for a, b in pairs)


def judges_lateness(node: Node) -> bool:
    """Whether an operator leaves out rows that come after the watermark has passed them."""
    match node:
        case Window():
            return node.kind is WindowKind.SESSION
        case IntervalJoin():
            return True
        case TemporalJoin():
            return node.right_time is not None
        case Over():
            return node.waits
        case Deduplicate(order_by=str() as column, keep_first=True):
            return is_windowed(node) or node.input.fields[column].is_rowtime
    return is_windowed(node)


def _projected(node: Project) -> WindowBounds | None:
    bounds = window_bounds(node.input)
    if bounds is None:
        return None
    named = [(value.name, name) for name, value in node.columns if isinstance(value, ColumnRef)]
    found = bounds.renamed(
        lambda columns: frozenset(name for source, name in named if source in columns)
    )
    return found if found.start and found.end else None


def _joined(node: Join) -> WindowBounds | None:
    """Find the bounds of the side whose rows all come out: those of the other may be NULL."""
    if node.kind is JoinKind.FULL:
        return None
    if node.kind is not JoinKind.RIGHT:
        return window_bounds(node.left)
    bounds = window_bounds(node.right)
    assert bounds is not None
    names = dict(zip(node.right.fields.names, node.right_names, strict=True))
    return bounds.renamed(lambda columns: frozenset(names[each] for each in columns))


def _expanded(node: Expand) -> WindowBounds | None:
    """Find the bounds that every grouping set has; others are NULL in some rows."""
    known = [node.keys[place] for place in set(range(len(node.keys))).intersection(*node.sets)]
    names = (name for name in node.input.fields.names if name not in node.keys)
    return _kept(window_bounds(node.input), (*names, *known))


def _kept(bounds: WindowBounds | None, columns: tuple[str, ...]) -> WindowBounds | None:
    if bounds is None or not bounds.are_in(columns):
        return None
    return bounds.renamed(lambda known: known & set(columns))
