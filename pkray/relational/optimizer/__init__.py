"""Plans that give the same rows with less work.

::

    simplify ──▶ push conditions down ──▶ lower semi joins ──▶ order joins ──▶ push down again
             ──▶ group early ──▶ prune columns

Each step takes a plan and gives one; nothing here knows of engines. Estimates of rows come from the
statistics of the sources (``estimates``).
"""

from pkray.relational.optimizer.join_order import order_joins
from pkray.relational.optimizer.partial_groups import group_early
from pkray.relational.optimizer.pruning import keeping, prune
from pkray.relational.optimizer.pushdown import push_down
from pkray.relational.optimizer.semi_joins import lower_semi_joins
from pkray.relational.optimizer.simplify import simplify
from pkray.relational.plan.nodes import Node, WatermarkAssign

__all__ = ["optimize", "prune"]


def optimize(plan: Node, *, bounded: bool = False) -> Node:
    """Find a plan that gives the same rows with less work.

    Args:
        bounded: it runs once, over rows that are never taken back: groups that are made early
            cost nothing but their rows, table functions give no columns that are not read, and
            nothing waits for event time.
    """
    if bounded:
        plan = plan.transform(_without_watermark)
    pushed = lower_semi_joins(push_down(simplify(plan)))
    ordered = push_down(order_joins(pushed))
    if bounded:
        ordered = keeping(group_early(ordered))
    return simplify(prune(simplify(ordered)))


def _without_watermark(node: Node) -> Node:
    return node.input if isinstance(node, WatermarkAssign) else node
