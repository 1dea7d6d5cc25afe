"""Define where the rows of a data file come from."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pkray.format.data_file import DataFileMeta
from pkray.schema.row_schema_adapter import RowSchemaAdapter
from pkray.schema.table_schema import KIND, SEQUENCE
from pkray.storage.row_pages import RowPages

T = TypeVar("T")
R = TypeVar("R")

SYSTEM_COLUMNS = (SEQUENCE, KIND)


class DataFileSource(Protocol):
    """Reads data files of one table."""

    def read(self, file: DataFileMeta, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
        """Yield some columns of the file's key-value rows, in file order."""

    def read_numbered(
        self, file: DataFileMeta, columns: Sequence[str], condition: pc.Expression | None = None
    ) -> Iterable[tuple[int, pa.RecordBatch]]:
        """Yield as `read`, with the position of each batch's first row.

        Args:
            condition: rows that it does not hold for may be left out.
        """

    def row_pages(self, file: DataFileMeta) -> RowPages | None:
        """Open the pages of the file's rows, as it was written; None where there are none.

        Raises:
            StorageError: they cannot be read; the file itself perhaps can.
        """

    def side_by_side(self, work: Callable[[T], R], items: Iterable[T]) -> Iterable[R]:
        """Yield what is made of each item, by work that reads files: together where that waits for
        answers."""

    def is_at_hand(self, file: DataFileMeta) -> bool:
        """Whether the file's rows are in memory: reading them costs little."""

    def evolution(self, file: DataFileMeta) -> RowSchemaAdapter | None:
        """Return what adapts the rows as they were written to those that `read` gives; None where
        they are the same."""

    def as_written(self, file: DataFileMeta) -> Self:
        """Return a source that reads the file as it was written."""
