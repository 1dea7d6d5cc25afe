"""Columns, left out where nothing above reads them."""

from collections.abc import Iterable
from dataclasses import replace
from functools import singledispatch
from typing import TypeAlias

from pkray.relational.plan import nodes

Names: TypeAlias = frozenset[str]


def prune(plan: nodes.Node) -> nodes.Node:
    """Leave out of every node the columns that nothing above it reads."""
    pruned = _prune(plan, frozenset(plan.fields.names))
    return _only(pruned, plan.fields.names)


def keeping(plan: nodes.Node) -> nodes.Node:
    """Let table functions say which columns they pass on, so that `prune` leaves some out.

    Plans that run continuously do not: their files would say other nodes than before.
    """
    return plan.transform(
        lambda node: (
            replace(node, keeps=node.input.fields.names)
            if isinstance(node, nodes.Unnest) and node.keeps is None
            else node
        )
    )


def _only(node: nodes.Node, names: Iterable[str]) -> nodes.Node:
    """Give exactly some columns, in their order."""
    wanted = tuple(names)
    if node.fields.names == wanted:
        return node
    return nodes.Project(node, node.fields.only(wanted).refs)


@singledispatch
def _prune(node: nodes.Node, needed: Names) -> nodes.Node:
    """Give at least the needed columns, in an order of the node's own.

    What is not told otherwise reads all columns of its inputs.
    """
    return node.map_inputs(prune)


@_prune.register
def _(node: nodes.Scan, needed: Names) -> nodes.Node:
    columns = tuple(name for name in node.fields.names if name in needed)
    return node if columns == node.fields.names else replace(node, columns=columns)


@_prune.register
def _(node: nodes.Project, needed: Names) -> nodes.Node:
    columns = tuple((name, value) for name, value in node.columns if name in needed)
    below = frozenset(name for _, value in columns for name in value.columns())
    return replace(node, input=_prune(node.input, below), columns=columns)


@_prune.register
def _(node: nodes.Filter, needed: Names) -> nodes.Node:
    below = _prune(node.input, needed | node.condition.columns())
    return _narrowed(node.with_inputs(below), needed)


def _narrowed(node: nodes.Node, needed: Names) -> nodes.Node:
    """Take out at once what only this node read: joins and groups would carry it along."""
    return _only(node, (name for name in node.fields.names if name in needed))


@_prune.register
def _(node: nodes.Sort | nodes.Limit | nodes.Hint, needed: Names) -> nodes.Node:
    order = node.order_by if isinstance(node, nodes.Sort) else ()
    return node.with_inputs(_prune(node.input, needed.union(key.column for key in order)))


@_prune.register
def _(node: nodes.Aggregate, needed: Names) -> nodes.Node:
    aggregates = tuple(each for each in node.aggregates if each[0] in needed)
    if not node.keys and not aggregates:
        aggregates = node.aggregates[:1]  # the one row, also where nothing of it is read
    kept = replace(node, aggregates=aggregates)
    return kept.with_inputs(_prune(node.input, frozenset(kept.columns_read())))


@_prune.register
def _(node: nodes.Over, needed: Names) -> nodes.Node:
    calls = tuple(each for each in node.calls if each[0] in needed)
    if not calls:
        return _prune(node.input, needed)
    read = {*node.partition_by, *(key.column for key in node.order_by)}
    read.update(name for _, call in calls for name in call.arguments)
    own = frozenset(name for name, _ in calls)
    return replace(node, input=_prune(node.input, (needed - own) | read), calls=calls)


@_prune.register
def _(node: nodes.TopN, needed: Names) -> nodes.Node:
    read = {*node.partition_by, *(key.column for key in node.order_by)}
    return _ranked(node, needed, read)


@_prune.register
def _(node: nodes.Deduplicate, needed: Names) -> nodes.Node:
    return _ranked(node, needed, {*node.keys, *filter(None, [node.order_by])})


def _ranked(node: nodes.TopN | nodes.Deduplicate, needed: Names, read: set[str]) -> nodes.Node:
    rank = node.rank_name if node.rank_name in needed else None
    below = _prune(node.input, (needed - {node.rank_name or ""}) | read)
    return _narrowed(replace(node, input=below, rank_name=rank), needed)


@_prune.register
def _(node: nodes.Window, needed: Names) -> nodes.Node:
    read = {node.time, *node.partition_by}
    return node.with_inputs(_prune(node.input, (needed - set(node.names)) | read))


@_prune.register
def _(node: nodes.WatermarkAssign, needed: Names) -> nodes.Node:
    read = needed | {node.time} | node.delay.columns()
    return node.with_inputs(_prune(node.input, read))


@_prune.register
def _(node: nodes.Unnest, needed: Names) -> nodes.Node:
    passed = needed - set(node.names)
    below = _prune(node.input, passed | set(node.arguments))
    if node.keeps is None:
        return node.with_inputs(below)
    return replace(node, input=below, keeps=tuple(each for each in node.keeps if each in passed))


@_prune.register
def _(node: nodes.Expand, needed: Names) -> nodes.Node:
    read = (needed - {node.id_name, node.number_name or ""}) | set(node.keys)
    return node.with_inputs(_prune(node.input, read))


@_prune.register
def _(node: nodes.SetOperation, needed: Names) -> nodes.Node:
    if node.kind is not nodes.SetKind.UNION or not node.all:
        needed = frozenset(node.fields.names)
    places = [index for index, name in enumerate(node.fields.names) if name in needed]
    sides = []
    for each in node.inputs:
        names = [each.fields.names[index] for index in places]
        sides.append(_only(_prune(each, frozenset(names)), names))
    return node.with_inputs(*sides)


@_prune.register
def _(node: nodes.Join, needed: Names) -> nodes.Node:
    return _pruned_join(node, needed, node.condition.columns())


@_prune.register
def _(node: nodes.IntervalJoin, needed: Names) -> nodes.Node:
    names = node.names_given
    times = {node.left_time, names[node.right_time]}
    return _pruned_join(node, needed, node.condition.columns() | times)


@_prune.register
def _(node: nodes.TemporalJoin, needed: Names) -> nodes.Node:
    names = node.names_given
    times = {node.left_time or "", names[node.right_time] if node.right_time else ""}
    return _pruned_join(node, needed, node.condition.columns() | times)


def _pruned_join(node: nodes.Pairing, needed: Names, read: Names) -> nodes.Node:
    wanted = needed | read
    left = _prune(node.left, (wanted & set(node.left.fields.names)) | set(node.left_keys))
    names = node.names_given
    below = {name for name, given in names.items() if given in wanted} | set(node.right_keys)
    right = _prune(node.right, frozenset(below))
    given = tuple(names[name] for name in right.fields.names)
    return _narrowed(replace(node, left=left, right=right, right_names=given), needed)
