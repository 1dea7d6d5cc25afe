"""Rows that could not be computed and were left out, with the reason: ``shop.totals$errors``."""

import json

import numpy as np
import pyarrow as pa

from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.continuous.state.state import State, StateSpec

NAME = "errors"
"""The name of their state."""
COLUMNS = pa.schema(
    [("epoch", pa.int64()), ("node", pa.int64()), ("error", pa.string()), ("row", pa.string())]
)
SPEC = StateSpec(COLUMNS, name=NAME)


class SkippedRows:
    """Collects rows that were left out; they are kept with the states of the query."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._epoch = -1
        self._first = self._number = state.worker << 40  # other than those of other workers

    def add(self, epoch: int, node: int, row: pa.RecordBatch, error: str) -> None:
        """Keep one row.

        Args:
            node: the number of the node that could not compute it.
            row: a batch of one row.
        """
        if epoch != self._epoch:
            self._epoch, self._number = epoch, self._first
        said = json.dumps(row.to_pylist()[0], default=str, ensure_ascii=False)
        numbers = [pa.array(np.array([each])) for each in (epoch, self._number)]
        values = [numbers[0], pa.array([node]), pa.array([error]), pa.array([said])]
        self._state.put(encoded(numbers), values)
        self._number += 1
