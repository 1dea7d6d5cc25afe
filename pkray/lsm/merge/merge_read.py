"""Read runs merged: streamed in slices cut at a common key, so memory does not grow with them.

Deletion vectors leave one row a key above level 0: files are read one by one there, without the
rows that they mark, and nothing is merged.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from pkray.format.data_file import DataFileMeta
from pkray.format.deletion_vector import DeletionVector
from pkray.lsm.keys.key_groups import RowOrder
from pkray.lsm.keys.sections import Section, sections
from pkray.lsm.levels import SortedRun, Vectors
from pkray.lsm.merge.merge_function import MergeEngine, newest_images, without_deletes
from pkray.lsm.merge.sorted_streams import Grouped, MergeLimits, group_sorted
from pkray.schema.table_schema import KIND, TableSchema
from pkray.storage.parquet.reader import BATCH_BYTES

SLICE_ROWS = 256 << 10
"""Rows held of all runs together, by default."""
MIN_READ_ROWS = 4 << 10
"""Least rows of a batch of one run, however small its share: smaller ones cost more calls."""
READ_ROWS = 64 << 10
"""Rows of a batch where nothing is merged."""


class FileReader(Protocol):
    """Reads key-value rows of one file (``DataFileStore``)."""

    def read(
        self,
        file: DataFileMeta,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = ...,
        batch_bytes: int = ...,
    ) -> Iterator[pa.RecordBatch]: ...


def merge_read(
    runs: Sequence[SortedRun],
    files: FileReader,
    engine: MergeEngine,
    schema: TableSchema,
    columns: Sequence[str] | None = None,
    *,
    drop_deletes: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of some runs, one a key, in key order.

    Args:
        runs: newest first; they may be all of a bucket's, or any that follow one another.
        columns: of the rows yielded; by default all value columns.
        drop_deletes: leave out keys whose merged row is -U or -D. Leave False only when older
            runs are not among ``runs``; then ``columns`` should name ``_VALUE_KIND``.
    """
    wanted = list(columns) if columns is not None else [field.name for field in schema.fields]
    may_delete = drop_deletes and any(run.may_have_deletes for run in runs)
    order = row_order(runs, schema)
    limits = MergeLimits.from_options(schema.core)
    for section in sections(runs, schema):
        extra = [KIND] if may_delete else []
        if len(section.runs) > 1:
            extra += [*order.columns, *engine.also_needed(wanted)]
            if not engine.keeps_newest and any(run.may_have_deletes for run in section.runs):
                extra.append(KIND)
        read = list(dict.fromkeys([*wanted, *extra]))
        for rows in _merged(section, files, engine, order, read, limits):
            kept = without_deletes(rows) if may_delete else rows
            if kept.num_rows:
                yield kept if read == wanted else kept.select(wanted)


def row_order(runs: Sequence[SortedRun], schema: TableSchema) -> RowOrder:
    """Return how rows of these runs (newest first) compare.

    Runs follow one another in sequence numbers unless several processes wrote at once.
    """
    older = -1
    overlap = False
    for run in reversed(runs):
        overlap |= run.min_sequence <= older
        older = max(older, run.max_sequence)
    return RowOrder(schema, by_sequence_number=overlap)


def _merged(
    section: Section,
    files: FileReader,
    engine: MergeEngine,
    order: RowOrder,
    columns: list[str],
    limits: MergeLimits,
) -> Iterator[pa.RecordBatch]:
    if len(section.runs) == 1:
        for file in section.runs[0].files:
            yield from files.read(file, columns, batch_rows=READ_ROWS)
        return
    above_0 = np.array([run.level > 0 for run in section.runs])
    for groups, source in section_groups(section, files, order, columns, limits):
        yield engine.merge(newest_images(engine, groups, above_0[source]))


def section_groups(
    section: Section,
    files: FileReader,
    order: RowOrder,
    columns: list[str],
    limits: MergeLimits,
    extra: Sequence[SortedRun] = (),
) -> Grouped:
    """Group a section's rows by key, with the number of the section's run of each row.

    Args:
        extra: runs in which each of the keys may have a row, which is read as well.
    """
    total = max(1, sum(run.row_count for run in section.runs))
    held_bytes = limits.bytes // 2  # bringing rows together copies them once
    held = min(SLICE_ROWS, max(1, held_bytes // _widest(extra)))
    least_bytes = held_bytes // (4 * min(len(section.runs), limits.streams))

    def open_run(run: SortedRun) -> Iterator[pa.RecordBatch]:
        rows = max(MIN_READ_ROWS, held * run.row_count // total)
        some_bytes = max(least_bytes, held_bytes * run.row_count // total)
        for file in run.files:
            yield from files.read(file, columns, batch_rows=min(rows, held), batch_bytes=some_bytes)

    sizes = [run.row_count for run in section.runs]
    yield from group_sorted([open_run(run) for run in section.runs], order, limits, sizes)


def _widest(runs: Sequence[SortedRun]) -> int:
    """Estimate the bytes of a row of theirs in memory: files are compressed."""
    widths = [file.file_size // max(1, file.row_count) for run in runs for file in run.files]
    return 4 * max(widths, default=0) or 1


class MarkedFileReader(Protocol):
    """Reads key-value rows of one file (``DataFileStore``)."""

    def read(
        self,
        file: DataFileMeta,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = ...,
        batch_bytes: int = ...,
        deleted: DeletionVector | None = ...,
    ) -> Iterator[pa.RecordBatch]: ...


class LiveRows:
    """Reads files as if the rows marked deleted were not there.

    Args:
        vectors: of the files; those without one are read whole.
    """

    def __init__(self, files: MarkedFileReader, vectors: Vectors) -> None:
        self._files = files
        self._vectors = vectors

    def read(
        self,
        file: DataFileMeta,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = READ_ROWS,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[pa.RecordBatch]:
        """Read a file's key-value rows that are left, in key order."""
        deleted = self._vectors.get(file.file_name)
        return self._files.read(
            file, columns, batch_rows=batch_rows, batch_bytes=batch_bytes, deleted=deleted
        )


def raw_read(
    files: Iterable[DataFileMeta],
    reader: MarkedFileReader,
    vectors: Vectors,
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Read the rows of some files above level 0, file after file, each in key order.

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
