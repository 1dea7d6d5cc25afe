"""Where the rows of a data file come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from pkray.evolution import RowEvolution
from pkray.format.data_file import DataFileMeta
from pkray.schema import KIND, SEQUENCE

SYSTEM_COLUMNS = (SEQUENCE, KIND)


class DataFileSource(Protocol):
    """Reads data files of one table."""

    def read(self, file: DataFileMeta, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
        """These columns of the file's key-value rows, in file order."""
        ...

    def evolution(self, file: DataFileMeta) -> RowEvolution | None:
        """From the rows as they were written to those that `read` gives; None where they are."""
        ...

    def as_written(self, file: DataFileMeta) -> DataFileSource:
        """Reads the file as it was written."""
        ...
