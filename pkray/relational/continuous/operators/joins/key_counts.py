"""Count the rows of each key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.continuous.operator import Context
from pkray.relational.continuous.operators.joins.join_sides import COUNT
from pkray.relational.continuous.state.state import StateSpec


@dataclass(frozen=True)
class Counted:
    """Count the rows of some keys, before and after an epoch.

    Attributes:
        keys: BINARY, distinct.
        before, after: int64, one a key.
    """

    keys: pa.Array
    before: np.ndarray
    after: np.ndarray

    @property
    def crossing(self) -> np.ndarray:
        """Whether each key comes to have rows, or to have none."""
        crossing: np.ndarray = (self.before > 0) != (self.after > 0)
        return crossing

    def of(self, keys: pa.Array) -> np.ndarray:
        """Give the numbers of keys; -1 for those that are not counted here."""
        numbers: np.ndarray = pc.fill_null(pc.index_in(keys, self.keys), -1).to_numpy()
        return numbers

    def gained(self, keys: pa.Array) -> np.ndarray:
        """Give how many rows keys gained; int64."""
        return np.r_[self.after - self.before, 0][self.of(keys)]


class KeyCounts:
    """Counts the rows of each key.

    Args:
        name: of the state among those of the operator.
    """

    def __init__(self, context: Context, name: str) -> None:
        columns = pa.schema([pa.field(COUNT, pa.int64())])
        self._state = context.open_state(StateSpec(columns, index=1, name=name))

    def get(self, keys: pa.Array) -> np.ndarray:
        """Count the rows of keys, which may repeat; int64."""
        distinct = keys.dictionary_encode()
        return self._get(distinct.dictionary)[np.asarray(distinct.indices)]

    def add(self, keys: pa.Array, gains: np.ndarray) -> Counted:
        """Count rows that come and go.

        Args:
            keys: BINARY, which may repeat.
            gains: int64, one a key.
        """
        distinct = keys.dictionary_encode()
        names = distinct.dictionary
        before = self._get(names)
        added = np.bincount(np.asarray(distinct.indices), gains, len(names))
        after = before + added.astype(np.int64)
        kept = np.flatnonzero((before != after) & (after > 0))
        gone = np.flatnonzero((before != after) & (after <= 0))
        self._state.remove(names.take(pa.array(gone)))
        self._state.put(names.take(pa.array(kept)), [pa.array(after[kept])])
        return Counted(names, before, after)

    def _get(self, distinct: pa.Array) -> np.ndarray:
        counts = np.zeros(len(distinct), np.int64)
        if len(distinct):
            found = self._state.get(distinct)
            counts[found.positions] = found.column(COUNT).to_numpy(zero_copy_only=False)
        return counts
