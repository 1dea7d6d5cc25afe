"""Conditions, moved down to where the rows come from."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import TypeAlias

from pkray.relational.functions.coercion import with_one_zero
from pkray.relational.optimizer.expressions import (
    factored,
    implied,
    is_deterministic,
    rejects_nulls,
    renamed,
    retyped,
    substitute,
)
from pkray.relational.optimizer.references import exact_references
from pkray.relational.plan import nodes
from pkray.relational.plan.expressions import TRUE, Call, ColumnRef, Expression, all_of, conjuncts
from pkray.relational.plan.fields import distinct_names

Conditions: TypeAlias = tuple[Expression, ...]
_NARROW_LEFT = (nodes.JoinKind.INNER, nodes.JoinKind.RIGHT, nodes.JoinKind.SEMI)
"""Joins that give left rows only where their condition is true."""


def push_down(plan: nodes.Node) -> nodes.Node:
    """Move every condition as far down as it goes, and make keys of joins of equalities."""
    return exact_references(_push(plan, ()))


@singledispatch
def _push(node: nodes.Node, above: Conditions) -> nodes.Node:
    """Put the conditions, over a node's columns, below it where they can go, otherwise above."""
    return _filtered(_descended(node), above)


def _descended(node: nodes.Node) -> nodes.Node:
    return node.map_inputs(lambda each: _push(each, ()))


def _filtered(node: nodes.Node, conditions: Iterable[Expression]) -> nodes.Node:
    condition = all_of(tuple(dict.fromkeys(conditions)))
    return node if condition == TRUE else nodes.Filter(node, condition)


def _divided(conditions: Conditions, columns: Iterable[str]) -> tuple[Conditions, Conditions]:
    """Divide conditions into those over some columns alone, and the others."""
    known = frozenset(columns)
    below = tuple(each for each in conditions if _may_move(each, known))
    return below, tuple(each for each in conditions if not _may_move(each, known))


def _through(node: nodes.Node, above: Conditions, columns: Iterable[str]) -> nodes.Node:
    """Take conditions over some columns below a node with one input."""
    below, kept = _divided(above, columns)
    return _filtered(node.with_inputs(_push(node.inputs[0], below)), kept)


@_push.register
def _(node: nodes.Filter, above: Conditions) -> nodes.Node:
    return _push(node.input, (*factored(node.condition), *above))


@_push.register
def _(node: nodes.Project, above: Conditions) -> nodes.Node:
    values = dict(node.columns)
    movable = [name for name, value in node.columns if is_deterministic(value)]
    below, kept = _divided(above, movable)
    moved = tuple(substitute(each, values) for each in below)
    return _filtered(node.with_inputs(_push(node.input, moved)), kept)


@_push.register
def _(node: nodes.Scan, above: Conditions) -> nodes.Node:
    """Give a source what it can leave rows out by, and check of it what the source does not."""
    own, others = _divided(above, node.source.fields.names)
    condition = all_of(tuple(dict.fromkeys((*conjuncts(node.condition), *own))))
    if condition == TRUE:
        return _filtered(node, others)
    remaining = node.source.remaining(condition)
    return _filtered(replace(node, condition=condition), (*conjuncts(remaining), *others))


@_push.register(nodes.Distinct)
@_push.register(nodes.Sort)
@_push.register(nodes.Hint)
def _(node: nodes.Node, above: Conditions) -> nodes.Node:
    return _through(node, above, node.fields.names)


@_push.register
def _(node: nodes.Aggregate, above: Conditions) -> nodes.Node:
    return _through(node, above, node.keys) if node.keys else _filtered(_descended(node), above)


@_push.register
def _(node: nodes.Over | nodes.TopN, above: Conditions) -> nodes.Node:
    return _through(node, above, node.partition_by)


@_push.register
def _(node: nodes.Deduplicate, above: Conditions) -> nodes.Node:
    return _through(node, above, node.keys)


@_push.register
def _(node: nodes.Expand, above: Conditions) -> nodes.Node:
    return _through(node, above, set(node.input.fields.names).difference(node.keys))


@_push.register
def _(node: nodes.Unnest, above: Conditions) -> nodes.Node:
    return _through(node, above, node.input.fields.names)


@_push.register
def _(node: nodes.Window, above: Conditions) -> nodes.Node:
    is_session = node.kind is nodes.WindowKind.SESSION
    return _through(node, above, node.partition_by if is_session else node.input.fields.names)


@_push.register
def _(node: nodes.SetOperation, above: Conditions) -> nodes.Node:
    below, kept = _divided(above, node.fields.names)
    names = dict(zip(node.fields.names, node.right.fields.names, strict=True))
    right = tuple(retyped(renamed(each, names), node.right) for each in below)
    left = tuple(retyped(each, node.left) for each in below)
    return _filtered(node.with_inputs(_push(node.left, left), _push(node.right, right)), kept)


@_push.register
def _(node: nodes.TemporalJoin, above: Conditions) -> nodes.Node:
    below, kept = _divided(above, node.left.fields.names)
    return _filtered(node.with_inputs(_push(node.left, below), _push(node.right, ())), kept)


@_push.register
def _(node: nodes.IntervalJoin, above: Conditions) -> nodes.Node:
    keeps_left = node.kind not in (nodes.JoinKind.RIGHT, nodes.JoinKind.FULL)
    below, kept = _divided(above if keeps_left else (), node.left.fields.names)
    rest = kept if keeps_left else above
    return _filtered(node.with_inputs(_push(node.left, below), _push(node.right, ())), rest)


@_push.register
def _(node: nodes.Join, above: Conditions) -> nodes.Node:
    node = _strengthened(node, above)
    left_names, right_names = frozenset(node.left.fields.names), frozenset(node.right_names)
    own = factored(node.condition)
    to_left: list[Expression] = []
    to_right: list[Expression] = []
    kept: list[Expression] = []
    inside: list[Expression] = []
    kind = node.kind
    outer = (nodes.JoinKind.RIGHT, nodes.JoinKind.FULL)
    for each in above:
        if _may_move(each, left_names) and kind not in outer:
            to_left.append(each)
        elif _may_move(each, right_names) and kind in (nodes.JoinKind.INNER, nodes.JoinKind.RIGHT):
            to_right.append(each)
        elif kind is nodes.JoinKind.INNER and is_deterministic(each):
            inside.append(each)
        else:
            kept.append(each)
    for each in own:
        if _may_move(each, left_names) and kind in _NARROW_LEFT:
            to_left.append(each)
        elif _may_move(each, right_names) and kind not in outer:
            to_right.append(each)
        else:
            inside.append(each)
    if kind is nodes.JoinKind.INNER:
        for each in inside:
            to_left.extend(_implied(each, left_names))
            to_right.extend(_implied(each, right_names))
    return _filtered(_joined(node, tuple(to_left), tuple(to_right), tuple(inside)), kept)


def _may_move(condition: Expression, names: frozenset[str]) -> bool:
    return condition.columns() <= names and is_deterministic(condition)


def _implied(condition: Expression, names: frozenset[str]) -> Conditions:
    found = implied(condition, names)
    return (found,) if found is not None and is_deterministic(found) else ()


def _strengthened(node: nodes.Join, above: Conditions) -> nodes.Join:
    """Make an outer join a narrower one where padded rows would not pass what is above it."""
    left, right = node.left.fields.names, node.right_names
    kind = node.kind
    if kind in (nodes.JoinKind.LEFT, nodes.JoinKind.FULL) and any(
        rejects_nulls(a, right) for a in above
    ):
        kind = nodes.JoinKind.INNER if kind is nodes.JoinKind.LEFT else nodes.JoinKind.RIGHT
    if kind in (nodes.JoinKind.RIGHT, nodes.JoinKind.FULL) and any(
        rejects_nulls(a, left) for a in above
    ):
        kind = nodes.JoinKind.INNER if kind is nodes.JoinKind.RIGHT else nodes.JoinKind.LEFT
    return node if kind is node.kind else replace(node, kind=kind)


def _joined(
    node: nodes.Join, to_left: Conditions, to_right: Conditions, inside: Conditions
) -> nodes.Node:
    """Build the join again, with keys of the equalities among its conditions."""
    names = dict(zip(node.right_names, node.right.fields.names, strict=True))
    left = _push(node.left, to_left)
    right = _push(node.right, tuple(retyped(renamed(e, names), node.right) for e in to_right))
    pairs, rest = _equalities(node, inside)
    plain = replace(node, left=left, right=right, condition=all_of(rest))
    return _with_keys(plain, pairs, names) if pairs else plain


def _equalities(
    node: nodes.Join, inside: Conditions
) -> tuple[list[tuple[Expression, Expression]], Conditions]:
    """Find conditions that say that something of the left side equals something of the right."""
    if node.null_aware:
        return [], inside
    left, right = frozenset(node.left.fields.names), frozenset(node.right_names)
    found = [(each, _sides(each, left, right)) for each in inside]
    pairs = [pair for _, pair in found if pair is not None]
    return pairs, tuple(each for each, pair in found if pair is None)


def _sides(
    condition: Expression, left: frozenset[str], right: frozenset[str]
) -> tuple[Expression, Expression] | None:
    if not isinstance(condition, Call) or condition.function != "equal":
        return None
    one, other = condition.arguments
    if one.columns() and one.columns() <= right:
        one, other = other, one
    of_sides = one.columns() <= left and other.columns() <= right
    if not (one.columns() and other.columns() and of_sides):
        return None
    same = one.type.with_nullable(True) == other.type.with_nullable(True)
    return (one, other) if same and is_deterministic(condition) else None


def _with_keys(
    node: nodes.Join, pairs: Sequence[tuple[Expression, Expression]], names: dict[str, str]
) -> nodes.Node:
    """Add keys to a join; what is no column is computed below it and taken out above it."""
    left, left_keys = _with_columns(
        node.left, [with_one_zero(one) for one, _ in pairs], node.right_names
    )
    others = [retyped(renamed(with_one_zero(other), names), node.right) for _, other in pairs]
    right, right_keys = _with_columns(node.right, others, ())
    added = len(right.fields) - len(node.right.fields)
    fresh = distinct_names(["$key"] * added, (*left.fields.names, *node.right_names))
    null_safe = node.null_safe or (False,) * len(node.left_keys)
    result = replace(
        node,
        left=left,
        right=right,
        left_keys=(*node.left_keys, *left_keys),
        right_keys=(*node.right_keys, *right_keys),
        right_names=(*node.right_names, *fresh),
        null_safe=(*null_safe, *([False] * len(pairs))) if any(null_safe) else (),
    )
    if result.fields.names == node.fields.names:
        return result
    return nodes.Project(result, node.fields.refs)


def _with_columns(
    node: nodes.Node, values: Sequence[Expression], taken: Iterable[str]
) -> tuple[nodes.Node, tuple[str, ...]]:
    """Compute values as further columns, unless they are columns already."""
    computed = [each for each in dict.fromkeys(values) if not isinstance(each, ColumnRef)]
    if not computed:
        return node, tuple(each.name for each in values if isinstance(each, ColumnRef))
    fresh = distinct_names(["$key"] * len(computed), (*node.fields.names, *taken))
    named = dict(zip(computed, fresh, strict=True))
    result = nodes.Project(
        node, (*node.fields.refs, *((name, each) for each, name in named.items()))
    )
    names = tuple(each.name if isinstance(each, ColumnRef) else named[each] for each in values)
    return result, names
