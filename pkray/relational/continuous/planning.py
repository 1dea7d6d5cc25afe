"""Make a bound plan ready to run continuously."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pkray.relational.continuous.run import RunnablePlan
from pkray.relational.optimizer import optimize
from pkray.relational.plan.nodes import Node
from pkray.relational.plan.physical import to_physical


def physical(plan: Node, *, before: bool) -> Node:
    """Optimize a bound plan, and put in what continuous queries need.

    Args:
        before: whether what takes the changes needs the rows before updates.
    """
    return to_physical(optimize(plan), before=before, by_key=not before)


def runnable(
    roots: tuple[Node, ...],
    before: tuple[bool, ...],
    ttl: str,
    ttls: Mapping[int, Sequence[str]] | None = None,
    digest: str = "",
) -> RunnablePlan:
    """Make a physical plan one that a run takes."""
    return RunnablePlan(roots, before, ttl, ttls, digest)
