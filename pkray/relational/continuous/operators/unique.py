"""Rows that may not agree in a key: `Unique`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pkray.columns.keys import codes
from pkray.errors import EvaluationError
from pkray.relational.continuous.changes import Changes, netted
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.continuous.state.state import StateSpec
from pkray.relational.plan.nodes import Unique

_COUNT = "rows"


@operates(Unique)
class UniqueRows(Operator):
    """Counts the rows of each key, and fails at the end of an epoch where there are two."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self._counts = context.open_state(StateSpec(pa.schema([pa.field(_COUNT, pa.int64())])))
        self._doubled: dict[bytes, dict[str, Any]] = {}

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        changes = netted(inputs[0], None)
        if len(changes):
            self._count(changes)
        if epoch.ends and self._doubled:
            row = next(iter(self._doubled.values()))
            said = ", ".join(f"{name} = {row[name]!r}" for name in self.node.keys)
            raise EvaluationError(
                f"two rows of the result have the key {said}, and ON CONFLICT ERROR was asked for: "
                "make the query's rows unique by it, or choose DO NOTHING or DEDUPLICATE"
            )
        return changes

    def _count(self, changes: Changes) -> None:
        keys = encoded(changes.columns(self.node.keys), len(changes))
        groups = codes([keys], len(keys))
        first = groups.first_rows()
        asked = keys.take(pa.array(first))
        counts = np.bincount(groups.of_row, weights=changes.signs, minlength=groups.count)
        found = self._counts.get(asked)
        counts = counts.astype(np.int64)
        counts[found.positions] += found.column(_COUNT).to_numpy()
        there = counts > 0
        self._counts.put(asked.filter(pa.array(there)), [pa.array(counts[there])])
        self._counts.remove(asked.filter(pa.array(~there)))
        for place in np.flatnonzero(counts <= 1) if self._doubled else ():
            self._doubled.pop(asked[int(place)].as_py(), None)
        for place in np.flatnonzero(counts > 1)[:_SHOWN]:
            row = changes.rows.slice(int(first[place]), 1).to_pylist()[0]
            self._doubled[asked[int(place)].as_py()] = row


_SHOWN = 1000
"""Keys with two rows that are remembered within an epoch: one is enough to fail."""
