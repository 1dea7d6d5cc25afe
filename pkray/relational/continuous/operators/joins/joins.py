"""Joins of changing sides: by their pairs, or by counts of keys where those suffice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pkray.relational.continuous.changes import Changes, concatenated
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.joins.membership import Membership
from pkray.relational.continuous.operators.joins.null_membership import NullMembership
from pkray.relational.continuous.operators.joins.pairing import Pairing
from pkray.relational.continuous.operators.joins.sourced_sides import is_free_of_state
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.plan.expressions import TRUE
from pkray.relational.plan.nodes import Join


def _is_plain(node: Join) -> bool:
    """Whether rows match whenever they come, not within windows."""
    return not node.is_windowed()


@operates(Join, when=_is_plain)
class Joins(Operator):
    """Joins two changing sides."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        kind: type[Membership | Pairing] = Pairing
        # counts of keys do not know which rows expired
        by_keys = not node.kind.keeps_right and node.condition == TRUE and not context.expires
        if by_keys and not is_free_of_state(node, context):
            kind = NullMembership if node.null_aware else Membership
        self._join = kind(node, context)
        self._waiting: list[Sequence[Changes]] = []

    def key_bytes(self, place: int, changes: Changes, keys: Sequence[str]) -> pa.Array:
        if self.node.null_aware:  # one NULL on the right concerns rows of all keys
            return encoded((), len(changes))
        return super().key_bytes(place, changes, keys)

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        if not (isinstance(self._join, Pairing) and self._join.reads_sources):
            return self._join.apply(inputs, epoch)
        if self._join.begins:
            return self._join.apply(inputs, epoch)
        # sources are read as they are before and after the epoch, not between its parts
        self._waiting.append(inputs)
        if not epoch.ends:
            return Changes.none(self.node.fields)
        parts, self._waiting = self._waiting, []
        return self._join.apply(
            [
                concatenated(each.fields, [part[index] for part in parts])
                for index, each in enumerate(self.node.inputs)
            ],
            epoch,
        )
