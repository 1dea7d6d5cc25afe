"""The order in which inner joins are done: the smallest results first."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TypeGuard

from pkray.relational.optimizer.estimates import Estimates
from pkray.relational.optimizer.expressions import renamed
from pkray.relational.plan.expressions import Call, ColumnRef, Expression, all_of, conjuncts
from pkray.relational.plan.nodes import Filter, Join, JoinKind, Node, Project
from pkray.schema.types import DataType

MOST_ORDERED = 64
"""Most joined inputs that are ordered: beyond, they are joined as they are written."""


def order_joins(plan: Node) -> Node:
    """Order each group of inner joins by the estimated sizes of their results."""
    if _is_plain(plan):
        group = _Group()
        group.collect(plan, {name: name for name in plan.fields.names})
        if len(group.inputs) > 2:
            return group.joined(plan)
    return plan.map_inputs(order_joins)


def _is_plain(node: Node) -> TypeGuard[Join]:
    return isinstance(node, Join) and node.kind is JoinKind.INNER and not any(node.null_safe)


@dataclass(frozen=True)
class _Part:
    """Joined inputs: a plan and which inputs are in it."""

    node: Node
    members: frozenset[int]


class _Group:
    """Inputs of inner joins, with columns named as the topmost join names them."""

    def __init__(self) -> None:
        self.inputs: list[Node] = []
        self.conditions: list[Expression] = []
        self.estimates = Estimates()

    def collect(self, node: Node, names: dict[str, str]) -> None:
        """Take the inputs and the conditions of joins below.

        Args:
            names: how the topmost join calls the node's columns; those it has no name for have
                one that begins with ``$``.
        """
        if isinstance(node, Project) and self._collect_renaming(node, names):
            return
        if isinstance(node, Filter) and _is_plain(node.input):
            self.conditions += [renamed(each, names) for each in conjuncts(node.condition)]
            self.collect(node.input, names)
            return
        if not _is_plain(node):
            self.inputs.append(_called(order_joins(node), names))
            return
        left = {name: names[name] for name in node.left.fields.names}
        pairs = zip(node.right.fields.names, node.right_names, strict=True)
        right = {name: names[given] for name, given in pairs}
        for one, other in zip(node.left_keys, node.right_keys, strict=True):
            kinds = node.left.fields[one].type, node.right.fields[other].type
            self.conditions.append(_equal(left[one], right[other], kinds))
        self.conditions += [renamed(each, names) for each in conjuncts(node.condition)]
        self.collect(node.left, left)
        self.collect(node.right, right)

    def _collect_renaming(self, node: Project, names: dict[str, str]) -> bool:
        """Look through a projection that only takes columns away from a join."""
        below = node.input
        kept = {v.name: n for n, v in node.columns if isinstance(v, ColumnRef)}
        if not _is_plain(below) or len(kept) < len(node.columns):
            return False
        fresh = {
            name: names[kept[name]] if name in kept else f"$o{len(self.inputs)}_{name}"
            for name in below.fields.names
        }
        taken = set(names.values())
        if any(given in taken for name, given in fresh.items() if name not in kept):
            return False
        self.collect(below, fresh)
        return True

    def joined(self, top: Join) -> Node:
        """Join the inputs, the smallest result first, and give the topmost join's columns."""
        parts = [_Part(node, frozenset({number})) for number, node in enumerate(self.inputs)]
        open_conditions = list(self.conditions)
        while len(parts) > 1:
            one, other = self._cheapest(parts, open_conditions)
            whole, open_conditions = self._join(one, other, open_conditions)
            parts = [part for part in parts if part not in (one, other)]
            parts.append(whole)
        result = parts[0].node
        if open_conditions:
            result = Filter(result, all_of(tuple(open_conditions)))
        return Project(result, top.fields.refs)

    def _cheapest(self, parts: list[_Part], conditions: list[Expression]) -> tuple[_Part, _Part]:
        if len(self.inputs) > MOST_ORDERED:
            first, second, *_ = sorted(parts, key=_place)
            return first, second

        def cost(pair: tuple[_Part, _Part]) -> tuple[bool, float]:
            node, _ = self._join(*pair, conditions)
            join = node.node
            keyed = bool(join.left_keys) if isinstance(join, Join) else False
            return not keyed, self.estimates.rows(join)

        return min(combinations(parts, 2), key=cost)

    def _join(
        self, one: _Part, other: _Part, conditions: list[Expression]
    ) -> tuple[_Part, list[Expression]]:
        """Join two parts by all conditions that are over them; the smaller one on the right."""
        if self.estimates.rows(one.node) < self.estimates.rows(other.node):
            one, other = other, one
        left, right = frozenset(one.node.fields.names), frozenset(other.node.fields.names)
        here = [each for each in conditions if each.columns() <= left | right]
        pairs = [pair for each in here if (pair := _pair(each, left, right)) is not None]
        rest = tuple(each for each in here if _pair(each, left, right) is None)
        join = Join(
            one.node,
            other.node,
            JoinKind.INNER,
            tuple(name for name, _ in pairs),
            tuple(name for _, name in pairs),
            other.node.fields.names,
            all_of(rest),
        )
        later = [each for each in conditions if each not in here]
        return _Part(join, one.members | other.members), later


def _place(part: _Part) -> int:
    """Say where its first input is written."""
    return min(part.members)


def _called(node: Node, names: dict[str, str]) -> Node:
    return Project(node, tuple((names[name], ref) for name, ref in node.fields.refs))


def _equal(left: str, right: str, kinds: tuple[DataType, DataType]) -> Expression:
    nullable = kinds[0].nullable or kinds[1].nullable
    refs = ColumnRef(kinds[0], left), ColumnRef(kinds[1], right)
    return Call(DataType("BOOLEAN", nullable), "equal", refs)


def _pair(
    condition: Expression, left: frozenset[str], right: frozenset[str]
) -> tuple[str, str] | None:
    """Find the columns of both sides that a condition says to be equal."""
    if not isinstance(condition, Call) or condition.function != "equal":
        return None
    names = list(_refs(condition))
    if len(names) != 2:
        return None
    kinds = {each.type.with_nullable(True) for each in condition.arguments}
    if len(kinds) != 1 or next(iter(kinds)).root in ("FLOAT", "DOUBLE"):
        return None
    one, other = names
    if one in left and other in right:
        return one, other
    return (other, one) if other in left and one in right else None


def _refs(condition: Call) -> Iterator[str]:
    for each in condition.arguments:
        if isinstance(each, ColumnRef):
            yield each.name
