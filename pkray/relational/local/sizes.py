"""Estimate how many rows a node gives, to choose the side of a join that is held."""

from pkray.relational.plan.nodes import Aggregate, Filter, Join, JoinKind, Limit, Node, Scan, Values

FILTERED = 0.2
"""Share of rows that a filter keeps, where nothing else is known."""


def rows_about(node: Node) -> float | None:
    """Guess a node's number of rows; None where a source does not know its own."""
    if isinstance(node, Scan):
        return node.source.row_count()
    if isinstance(node, Values):
        return len(node.rows)
    if isinstance(node, Aggregate) and not node.keys:
        return 1
    sizes = [rows_about(below) for below in node.inputs]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) or not known:
        return None
    if isinstance(node, Join) and node.kind in (JoinKind.SEMI, JoinKind.ANTI, JoinKind.MARK):
        return known[0]
    if isinstance(node, Limit) and node.count is not None:
        return min(node.count, known[0])
    return max(known) * (FILTERED if isinstance(node, Filter) else 1)
