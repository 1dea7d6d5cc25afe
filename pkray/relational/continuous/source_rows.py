"""Rows of a source by key, as of an epoch: what need not be kept a second time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa


class SourceRows(Protocol):
    """Finds rows of a source as it is before the changes of an epoch, and after them."""

    @property
    def begins(self) -> bool:
        """Whether the source had no rows before this epoch."""
        ...

    def find(
        self, keys: pa.RecordBatch, columns: Sequence[str], *, before: bool
    ) -> tuple[np.ndarray, pa.RecordBatch]:
        """Find all rows of keys.

        Args:
            keys: distinct, without NULLs, under the names of the source's columns, by which it
                finds rows (``Source.finds_by``).
            columns: what to read.
            before: as the source was before the epoch; otherwise as it is after it.

        Returns:
            for each row the number of its key, int64 and ascending; and the rows.
        """
        ...
