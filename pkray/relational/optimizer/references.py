"""Types of references, made exact where a narrower join made columns NOT NULL."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from pkray.relational.optimizer.expressions import retyped, with_types
from pkray.relational.plan.nodes import Filter, Node, Pairing, Project, WatermarkAssign


def exact_references(plan: Node) -> Node:
    """Give each reference the type that its column has below it.

    Conditions above an outer join may make it a narrower one, whose columns are never NULL. What
    stands above was bound to columns that may be; as such a file of the plan would not say what
    whoever reads it finds.
    """
    return plan.transform(_exact)


@singledispatch
def _exact(node: Node) -> Node:
    return node


@_exact.register
def _(node: Filter) -> Node:
    condition = retyped(node.condition, node.input)
    return node if condition == node.condition else replace(node, condition=condition)


@_exact.register
def _(node: Project) -> Node:
    columns = tuple((name, retyped(value, node.input)) for name, value in node.columns)
    return node if columns == node.columns else replace(node, columns=columns)


@_exact.register
def _(node: WatermarkAssign) -> Node:
    delay = retyped(node.delay, node.input)
    return node if delay == node.delay else replace(node, delay=delay)


@_exact.register
def _(node: Pairing) -> Node:
    fields = node.left.fields + node.right_fields
    return node.with_expressions(lambda value: with_types(value, fields))
