"""Parts of a plan that occur more than once, and are computed once."""

from dataclasses import dataclass

from pkray.relational.functions.function import function
from pkray.relational.plan import nodes
from pkray.relational.plan.expressions import Call, Expression, UdfCall
from pkray.storage.spill import SpilledBatches

KEPT = (nodes.Aggregate, nodes.Deduplicate, nodes.Distinct, nodes.Limit, nodes.TopN)
"""What gives far fewer rows than it takes, so that its rows can be held."""


@dataclass
class Held:
    """The rows of a node; None before they are computed."""

    rows: SpilledBatches | None = None


def repeated(plan: nodes.Node) -> dict[int, Held]:
    """Find the parts that occur more than once and give the same rows each time.

    Returns:
        by the id of each such node, where its rows are held: one place for equal nodes.
    """
    equal: dict[nodes.Node, list[int]] = {}
    for node in plan.walk():
        if isinstance(node, KEPT):
            equal.setdefault(node, []).append(id(node))
    several = (ids for node, ids in equal.items() if len(ids) > 1 and _is_fixed(node))
    return {each: held for ids in several for held in [Held()] for each in ids}


def _is_fixed(plan: nodes.Node) -> bool:
    return all(_gives_the_same(node) for node in plan.walk())


def _gives_the_same(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Aggregate | nodes.Over | nodes.Unnest) and _has_udf(node):
        return False
    return all(_is_constant(part) for each in node.expressions() for part in each.walk())


def _has_udf(node: nodes.Aggregate | nodes.Over | nodes.Unnest) -> bool:
    if isinstance(node, nodes.Unnest):
        return node.udf is not None
    calls = node.aggregates if isinstance(node, nodes.Aggregate) else node.calls
    return any(call.udf is not None for _, call in calls)


def _is_constant(part: Expression) -> bool:
    """Whether an expression gives the same each time."""
    if isinstance(part, Call):
        return function(part.function).deterministic
    return not isinstance(part, UdfCall)
