"""Projections that do nothing, or that one can do in the place of two."""

from collections import Counter

from pkray.relational.optimizer.expressions import is_cheap, is_deterministic, substitute
from pkray.relational.plan.expressions import TRUE, ColumnRef
from pkray.relational.plan.nodes import Filter, Node, Project


def simplify(plan: Node) -> Node:
    """Merge projections and leave out those that change nothing."""
    return plan.transform(_simplified)


def _simplified(node: Node) -> Node:
    if isinstance(node, Filter) and node.condition == TRUE:
        return node.input
    if not isinstance(node, Project) or type(node) is not Project:
        return node
    below = node.input
    if type(below) is Project and _can_merge(node, below):
        values = dict(below.columns)
        merged = tuple((name, substitute(value, values)) for name, value in node.columns)
        return _simplified(Project(below.input, merged))
    return below if is_identity(node) else node


def is_identity(node: Project) -> bool:
    """Whether a projection gives its input's columns as they are."""
    return node.columns == node.input.fields.refs


def _can_merge(node: Project, below: Project) -> bool:
    """Whether nothing would be computed twice, nor other than where it stands."""
    uses = Counter(
        part.name
        for _, value in node.columns
        for part in value.walk()
        if isinstance(part, ColumnRef)
    )
    return all(
        is_deterministic(value) and (is_cheap(value) or uses[name] <= 1)
        for name, value in below.columns
    )
