"""Read files one by one: where deletion vectors leave one row a key, nothing need be merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from pkray.format.data_file import DataFileMeta
from pkray.lsm.levels import Vectors
from pkray.lsm.merge.live_rows import LiveRows, MarkedFileReader
from pkray.lsm.merge.merge_function import without_deletes
from pkray.schema.table_schema import KIND


def raw_read(
    files: Iterable[DataFileMeta],
    reader: MarkedFileReader,
    vectors: Vectors,
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """The rows of some files above level 0, file after file, each in key order.

    Args:
        vectors: rows of the files that are gone.
        columns: of the rows yielded.
    """
    live = LiveRows(reader, vectors)
    wanted = list(columns)
    for file in files:
        extra = [KIND] if file.delete_row_count != 0 and KIND not in wanted else []
        for rows in live.read(file, [*wanted, *extra]):
            kept = without_deletes(rows)
            if kept.num_rows:
                yield kept.select(wanted) if extra else kept
