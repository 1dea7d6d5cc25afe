"""Check whether a query's state can go on under a changed TTL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pkray.errors import UnsupportedError
from pkray.options.values import duration_millis
from pkray.relational.plan.describe import description
from pkray.relational.plan.expressions import TRUE
from pkray.relational.plan.json_writer import in_order, shared_nodes
from pkray.relational.plan.nodes import Join, Node
from pkray.relational.plan.source_sides import source_sides


def check_layouts(
    roots: Sequence[Node], before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    """Check that operators keep the same rows under other TTLs.

    Args:
        roots: the plan of both.
        before, after: as JSON has it, with the TTLs.

    Raises:
        UnsupportedError: one does not; the error names the node, and the field ``ttl``.
    """
    was, is_now = _expiring(before), _expiring(after)
    for number, node in enumerate(in_order(shared_nodes(roots)), 1):
        if was.get(number) != is_now.get(number) and _keeps_by_ttl(node):
            raise UnsupportedError(
                f"node {number}, {description(node)}, keeps rows that expire, and otherwise reads "
                "them from its sources: its ttl cannot change from or to 0 while it has state; "
                "let the plan take over by query.upgrade(…), or leave the ttl as it is",
                node=number,
                field="ttl",
            )


def _expiring(document: Mapping[str, Any]) -> dict[int, bool]:
    """Say of each node whether any of its state expires."""
    return {
        node["id"]: any(duration_millis(state["ttl"]) for state in node.get("state", ()))
        for node in document["nodes"]
    }


def _keeps_by_ttl(node: Node) -> bool:
    """Whether what an operator keeps depends on whether it expires."""
    if not isinstance(node, Join) or node.is_windowed():
        return False
    counts_keys = not node.kind.keeps_right and node.condition == TRUE
    return counts_keys or any(side is not None for side in source_sides(node))
