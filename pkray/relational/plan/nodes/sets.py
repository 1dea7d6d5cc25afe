"""Nodes that unite, intersect or subtract rows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from pkray.relational.plan.cached_value import cached_value
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.node import ALL, INSERT, NO_KEYS, Keys, Kinds, Node, State, TwoInputs
from pkray.relational.plan.nodes.changes import Exchange


class SetKind(StrEnum):
    """Names which rows of two inputs are taken."""

    UNION = "union"
    INTERSECT = "intersect"
    EXCEPT = "except"


@dataclass(frozen=True)
class SetOperation(TwoInputs):
    """Unites, intersects or subtracts rows; both sides have the same types, the left's names.

    Attributes:
        all: whether equal rows count as often as they occur.
    """

    kind: SetKind
    all: bool

    @cached_value
    def fields(self) -> Fields:
        return Fields(
            tuple(
                replace(
                    left,
                    type=left.type.with_nullable(left.type.nullable or right.type.nullable),
                    is_rowtime=left.is_rowtime and right.is_rowtime,
                )
                for left, right in zip(self.left.fields, self.right.fields, strict=True)
            )
        )

    @property
    def is_union_all(self) -> bool:
        """Whether it gives all rows of both sides as they are."""
        return self.kind is SetKind.UNION and self.all

    def described(self) -> list[tuple[str, str]]:
        return [("kind", f"{self.kind} all" if self.all else str(self.kind))]

    def keys_from(self, keys_of: Callable[[Node], Keys]) -> Keys:
        if self.is_union_all:
            return NO_KEYS
        whole = NO_KEYS if self.all else frozenset({frozenset(self.fields.names)})
        if self.kind is SetKind.UNION:
            return whole
        left = keys_of(self.left)
        if self.kind is SetKind.EXCEPT:
            return whole | left
        names = dict(zip(self.right.fields.names, self.fields.names, strict=True))
        right = (frozenset(names[name] for name in key) for key in keys_of(self.right))
        return whole | left | frozenset(right)

    def kinds_from(self, inputs: tuple[Kinds, ...]) -> Kinds:
        both = inputs[0] | inputs[1]
        if self.is_union_all:
            return both
        return INSERT if both == INSERT and self.kind is not SetKind.EXCEPT else ALL

    def needs_before(self, index: int, above: bool) -> bool:
        return above or not self.is_union_all

    def states(self) -> tuple[State, ...]:
        if self.is_union_all:
            return ()
        names = self.fields.names
        return (State(f"{self.kind}State", "fold", names, "distinct rows of both inputs"),)

    def passes_in_time(self, column: str) -> bool:
        if self.kind is not SetKind.UNION:
            return False
        place = self.fields.names.index(column)
        return all(each.comes_in_time(each.fields.names[place]) for each in self.inputs)

    def exchanged(self) -> Node:
        if self.is_union_all:
            return self
        return self.with_inputs(*(Exchange(each, each.fields.names) for each in self.inputs))
