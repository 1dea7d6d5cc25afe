"""Types of references, made exact where a narrower join made columns NOT NULL."""

from pkray.relational.optimizer.expressions import with_types
from pkray.relational.plan.nodes import Filter, Node, Pairing, Project, WatermarkAssign


def exact_references(plan: Node) -> Node:
    """Give each reference the type that its column has below it.

    Conditions above an outer join may make it a narrower one, whose columns are never NULL. What
    stands above was bound to columns that may be; as such a file of the plan would not say what
    whoever reads it finds.
    """
    return plan.transform(_exact)


def _exact(node: Node) -> Node:
    if isinstance(node, Pairing):
        fields = node.left.fields + node.right_fields
    elif isinstance(node, Filter | Project | WatermarkAssign):
        fields = node.input.fields
    else:
        return node
    return node.with_expressions(lambda value: with_types(value, fields))
