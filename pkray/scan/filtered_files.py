"""Data files less the row groups that a filter leaves out; and what reading them took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pkray.format.data_file import DataFileMeta
from pkray.format.deletion_vector import DeletionVector
from pkray.lsm.data_files import READ_ROWS, DataFileStore
from pkray.storage.parquet.reader import BATCH_BYTES
from pkray.storage.parquet.row_groups import RowGroupFilter


@dataclass
class ReadCounters:
    """Counts what is read of a split.

    Args:
        files: data files that were opened.
        row_groups_total, row_groups_read: of these files, without and with the filter.
        rows_read: rows of the files, before merging.
        rows_merged: rows before the filter.
        rows_yielded: rows that came out.
    """

    files: int = 0
    row_groups_total: int = 0
    row_groups_read: int = 0
    rows_read: int = 0
    rows_merged: int = 0
    rows_yielded: int = 0


class FilteredFiles:
    """Reads the files of a bucket without row groups of which no row matters.

    Args:
        condition: leaves out row groups in which it holds for no row; None reads all.
        counters: what to count in.
    """

    def __init__(
        self, files: DataFileStore, condition: pc.Expression | None, counters: ReadCounters
    ) -> None:
        self._files = files
        self._condition = condition
        self._counters = counters

    def read(
        self,
        file: DataFileMeta,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = READ_ROWS,
        batch_bytes: int = BATCH_BYTES,
        deleted: DeletionVector | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield a file's key-value rows in key order. Raises as `DataFileStore.read`."""
        counters = self._counters
        counters.files += 1
        groups = RowGroupFilter(self._condition)
        for batch in self._files.read(
            file,
            columns,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            deleted=deleted,
            row_group_filter=groups,
        ):
            counters.rows_read += batch.num_rows
            yield batch
        counters.row_groups_total += groups.total
        counters.row_groups_read += groups.kept
