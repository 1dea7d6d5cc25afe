"""Joins of changing sides: by their pairs, or by counts of keys where those suffice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.membership import Membership
from pkray.relational.continuous.operators.null_membership import NullMembership
from pkray.relational.continuous.operators.pairing import Pairing
from pkray.relational.plan.expressions import TRUE
from pkray.relational.plan.nodes import Join
from pkray.relational.plan.windowing import is_windowed


def _is_plain(node: Join) -> bool:
    """Whether rows match whenever they come, not within windows."""
    return not is_windowed(node)


@operates(Join, when=_is_plain)
class Joins(Operator):
    """Joins two changing sides."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        kind: type[Membership | Pairing] = Pairing
        # counts of keys do not know which rows expired
        if not node.kind.keeps_right and node.condition == TRUE and not context.expires:
            kind = NullMembership if node.null_aware else Membership
        self._join = kind(node, context)

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        return self._join.apply(inputs)
