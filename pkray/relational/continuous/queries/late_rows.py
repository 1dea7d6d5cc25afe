"""Rows that came after the watermark had passed them and were left out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pkray.relational.continuous.operator import Epoch
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.continuous.state.state import State, StateSpec
from pkray.relational.plan.fields import Fields

EPOCH, WATERMARK = "_epoch", "_watermark"
"""The columns before those of the rows: the epoch in which a row came, and the watermark of its
beginning in microseconds."""


def late_spec(fields: Fields) -> StateSpec:
    """Describe the state of the late rows of one input of an operator."""
    columns = [pa.field(EPOCH, pa.int64()), pa.field(WATERMARK, pa.int64()), *fields.arrow]
    return StateSpec(pa.schema(columns))


class LateRows:
    """Collects the late rows of one input of an operator; they are kept with the query's states.

    Attributes:
        count: rows since the query began to run.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._epoch = -1
        self._first = self._number = state.worker << 40  # other than those of other workers
        self.count = 0

    def add(self, rows: pa.RecordBatch, epoch: Epoch) -> None:
        """Keep rows.

        Args:
            rows: of the columns of the input, in windows each with the one that it missed.
        """
        count = rows.num_rows
        if epoch.number != self._epoch:
            self._epoch, self._number = epoch.number, self._first
        numbers = pa.array(np.arange(self._number, self._number + count))
        epochs = pa.repeat(pa.scalar(epoch.number, pa.int64()), count)
        watermarks = pa.repeat(pa.scalar(epoch.watermark, pa.int64()), count)
        self._state.now = epoch.time
        self._state.put(encoded([epochs, numbers]), [epochs, watermarks, *rows.columns])
        self._number += count
        self.count += count
