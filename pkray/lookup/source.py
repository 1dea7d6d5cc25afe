"""Where the rows of a data file come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from pkray.format.data_file import DataFileMeta
from pkray.schema import KIND, SEQUENCE

SYSTEM_COLUMNS = (SEQUENCE, KIND)


class DataFileSource(Protocol):
    """Reads data files of one table."""

    def read(self, file: DataFileMeta, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
        """These columns of the file's key-value rows, in file order."""
        ...
