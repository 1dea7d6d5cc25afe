"""Columns that table functions do not repeat, as nothing above reads them.

An array beside each of its n elements costs n times n. Bounded plans say what comes out,
`Unnest.keeps`; the files of continuous plans say it of none, so that it is found when their
operators are made.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TypeAlias

from pkray.relational.plan import nodes

Names: TypeAlias = AbstractSet[str]


def without_unread(order: Sequence[nodes.Node], roots: Collection[int]) -> Mapping[int, nodes.Node]:
    """Find the nodes that are to be computed with fewer columns.

    Args:
        order: all nodes, inputs before what takes them.
        roots: ``id`` of those whose columns all are read.

    Returns:
        by the ``id`` of a node what is computed in its place; of nodes without a table function
        below them nothing.
    """
    read = {id(node): set(node.fields.names) if id(node) in roots else set() for node in order}
    for node in reversed(order):
        for each in node.inputs:
            read[id(each)] |= _read_of(each, node, read[id(node)])
    found: dict[int, nodes.Node] = {}
    for node in order:
        fewer = node
        if isinstance(node, nodes.Unnest) and node.keeps is None:
            names = node.input.fields.names
            if not read[id(node)].issuperset(names):
                fewer = replace(node, keeps=tuple(n for n in names if n in read[id(node)]))
        if any(id(each) in found for each in node.inputs):
            fewer = fewer.with_inputs(*(found.get(id(each), each) for each in node.inputs))
        if fewer is not node:
            found[id(node)] = fewer
    return found


def _read_of(node: nodes.Node, taker: nodes.Node, read: Names) -> Names:
    """Say what a node reads of its input, if so much is read of it; unless told otherwise, all."""
    match taker:
        case nodes.Project():
            return {name for value in taker.expressions() for name in value.columns()}
        case nodes.Filter():
            return read | taker.condition.columns()
        case nodes.Exchange():
            return read | set(taker.keys)
        case nodes.Hint():
            return read
        case nodes.Unnest():
            return (read - set(taker.names)) | set(taker.arguments)
        case nodes.Aggregate() if (
            not taker.judges_lateness() and taker.input.window_bounds() is None
        ):
            return set(taker.columns_read())
    return set(node.fields.names)
