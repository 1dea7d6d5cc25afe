"""Semi and anti joins, moved below the joins that do not make their left rows fewer."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pkray.relational.optimizer.estimates import Estimates
from pkray.relational.optimizer.expressions import is_deterministic, renamed
from pkray.relational.plan.expressions import ColumnRef
from pkray.relational.plan.nodes import Join, JoinKind, Node, Project


def lower_semi_joins(plan: Node) -> Node:
    """Ask whether a row has a match before it is joined with others, if it is one of fewer then."""
    return _lowered_all(plan, Estimates())


def _lowered_all(plan: Node, known: Estimates) -> Node:
    node = plan.map_inputs(lambda each: _lowered_all(each, known))
    is_semi = isinstance(node, Join) and node.kind in (JoinKind.SEMI, JoinKind.ANTI)
    return _lowered(node, known) if isinstance(node, Join) and is_semi else node


def _lowered(node: Join, known: Estimates) -> Node:
    above = node.left
    for place, names in _inputs(above):
        moved = _moved(node, above.inputs[place], names)
        if moved is not None and known.rows(moved.left) <= known.rows(above):
            inputs = list(above.inputs)
            inputs[place] = _lowered(moved, known)
            return above.with_inputs(*inputs)
    return node


def _inputs(node: Node) -> Iterator[tuple[int, Mapping[str, str]]]:
    """List the inputs whose rows a node may leave out, with what it calls their columns."""
    if isinstance(node, Project) and isinstance(node.input, Join):
        yield 0, {n: v.name for n, v in node.columns if isinstance(v, ColumnRef)}
    if isinstance(node, Join) and node.kind in (JoinKind.INNER, JoinKind.LEFT):
        yield 0, {name: name for name in node.left.fields.names}
    if isinstance(node, Join) and node.kind is JoinKind.INNER:
        yield 1, dict(zip(node.right_names, node.right.fields.names, strict=True))


def _moved(node: Join, side: Node, names: Mapping[str, str]) -> Join | None:
    """Give the semi join over one input; None where it needs more than this has."""
    read = {*node.left_keys, *(node.condition.columns() - {*node.right_names})}
    taken = {*node.right_names} & {*side.fields.names}
    if not node.left_keys or not read <= names.keys() or taken:
        return None
    if not is_deterministic(node.condition):
        return None
    keys = tuple(names[key] for key in node.left_keys)
    own = {name: names[name] for name in read}
    return replace(node, left=side, left_keys=keys, condition=renamed(node.condition, own))
