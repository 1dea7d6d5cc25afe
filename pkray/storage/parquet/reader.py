"""Reads Parquet files in bounded memory.

Row groups that have no row that a condition holds for, by their statistics, are left out.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pkray.schema.columns import filter_rows
from pkray.storage.object_store import ObjectStore
from pkray.storage.parquet.metadata import checked, explained, read_footer

UNFIT = (pa.ArrowInvalid, pa.ArrowTypeError, NotImplementedError)
"""Are raised by a condition that does not fit the file's types."""


@dataclass
class RowGroupFilter:
    """Leaves out row groups without a row that a condition holds for, by their statistics.

    Args:
        condition: of the file's columns; None, and one that does not fit their types, keeps all.
        total, kept: row groups that there were so far, and that were read.
    """

    condition: pc.Expression | None
    total: int = 0
    kept: int = 0


def may_hold(condition: pc.Expression, file: pa.NativeFile, schema: pa.Schema) -> Set[int]:
    """Number the row groups of an open file that may hold rows that fit.

    Raises:
        pa.ArrowException, NotImplementedError: the condition does not fit, see `UNFIT`.
    """
    import pyarrow.dataset as ds  # it imports pandas: not before a read has a condition

    fragment = ds.ParquetFileFormat().make_fragment(file)
    return {group.id for group in fragment.subset(condition, schema).row_groups}


def row_groups_with(
    store: ObjectStore, path: str, condition: pc.Expression
) -> Iterator[tuple[int, int]]:
    """List number and first row of each; all of them where the condition does not fit the types.

    Raises:
        MissingFileError, CorruptFileError: as `read_batches`.
    """
    with store.open_input(path) as file, explained(store.location(path)):
        metadata = read_footer(file)
        kept: Set[int] = set(range(metadata.num_row_groups))
        with contextlib.suppress(*UNFIT):
            kept = may_hold(condition, file, metadata.schema.to_arrow_schema())
    first = 0
    for number in range(metadata.num_row_groups):
        if number in kept:
            yield number, first
        first += metadata.row_group(number).num_rows


def numbered(
    batches: Iterable[pa.RecordBatch], first: int = 0
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each batch with the position of its first row.

    Args:
        first: position of the first row of all.
    """
    for batch in batches:
        yield first, batch
        first += batch.num_rows


class DeletedRows(Protocol):
    """The rows of a file that are gone."""

    def within(self, first: int, count: int) -> np.ndarray:
        """Return their positions from ``first`` on, counted from there, in the next ``count``
        rows."""


def without_deleted(
    deleted: DeletedRows, batches: Iterable[pa.RecordBatch], ranges: Iterable[range]
) -> Iterator[pa.RecordBatch]:
    """Leave rows out.

    Args:
        ranges: the positions of the batches' rows in the file, in order.
    """
    positions = _Positions(ranges)
    for batch in batches:
        kept: np.ndarray | None = None
        for at, first, count in positions.take(batch.num_rows):
            gone = deleted.within(first, count)
            if len(gone):
                kept = np.ones(batch.num_rows, np.bool_) if kept is None else kept
                kept[gone + at] = False
        if kept is None:
            yield batch
        elif kept.any():
            yield batch.filter(pa.array(kept))


class _Positions:
    """Positions of rows in a file, of which some row groups are read."""

    def __init__(self, ranges: Iterable[range]) -> None:
        self._ranges = iter(ranges)
        self._rest = range(0)

    def take(self, rows: int) -> Iterator[tuple[int, int, int]]:
        """The next rows as (place among them, position in the file, count)."""
        at = 0
        while at < rows:
            while not self._rest:
                self._rest = next(self._ranges)
            count = min(len(self._rest), rows - at)
            yield at, self._rest[0], count
            self._rest = self._rest[count:]
            at += count


REMOTE_READ_BYTES = 16 << 20
"""Object stores are read this much at a time at most, as far as row groups allow."""
CHUNKS_BYTES, CHUNKS_BATCHES = 8 << 20, 2
"""What a local file's row group has of the wanted columns is read whole up to this size, if it is
no larger than so many batches either."""
BUFFER_BYTES = 1 << 20
"""Each column of a larger one is read this much at a time, if there are few."""
BUFFERS_BYTES = 2 << 20
"""What all columns of a file are read at a time."""
MIN_BUFFER_BYTES = 64 << 10
"""Smaller reads cost more calls than they save memory."""
BATCH_BYTES = 16 << 20
"""Most of a batch, unless a row is wider."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8}
_OFFSET_BYTES = 4


def read_batches(
    store: ObjectStore,
    path: str,
    columns: Sequence[str] | None = None,
    batch_rows: int = 64 << 10,
    row_groups: Sequence[int] | None = None,
    filter: pc.Expression | None = None,
    *,
    batch_bytes: int = BATCH_BYTES,
    schema: pa.Schema | None = None,
    deleted: DeletedRows | None = None,
    row_group_filter: RowGroupFilter | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, in order.

    Args:
        columns: names in the order wanted; all by default.
        batch_rows: most rows of a batch.
        batch_bytes: about the most that a batch takes in memory; a row may be wider. Of values
            in a dictionary only what the file holds of them counts.
        row_groups: which row groups, by position; all by default.
        filter: keep the rows it holds for; row groups that have none are not read.
        schema: types wanted by column name, where the file's differ (INT96 timestamps have no
            time zone); the file's own types by default.
        deleted: rows of the file to leave out.
        row_group_filter: leaves out row groups, and counts them.

    Raises:
        MissingFileError: there is no such file.
        CorruptFileError: it is not Parquet, is cut short, or lacks a column.
    """
    file = store.open_input(path)
    with contextlib.closing(file), explained(store.location(path)):
        size = _BatchSize(batch_rows, batch_bytes)
        # An expression does not tell its columns: all are read where there is one.
        read_columns = columns if filter is None else None
        remote = store.local_path(path) is None
        reader = _Reader(file, schema, remote, read_columns, row_groups, size)
        names = reader.existing(columns)
        groups = reader.row_groups(row_groups, row_group_filter)
        read_names = names
        if filter is not None:
            groups = reader.prune(groups, filter)
            read_names = reader.arrow_schema.names
        batches = reader.batches(groups, read_names, size)
        if deleted is not None:
            batches = without_deleted(deleted, batches, reader.row_ranges(groups))
        for batch in batches:
            if filter is not None:
                batch = filter_rows(batch, filter)
                if batch.num_rows == 0:
                    continue
            yield batch.select(names) if batch.schema.names != names else batch


@dataclass(frozen=True)
class _BatchSize:
    """Most rows of a batch, and about the most bytes."""

    rows: int
    bytes: int

    def rows_of(self, width: int) -> int:
        """Of rows of this width; few different answers."""
        if width * self.rows <= self.bytes:
            return self.rows
        return 1 << max(1, self.bytes // width).bit_length() - 1


class _Reader:
    """One open file."""

    def __init__(
        self,
        file: pa.NativeFile,
        schema: pa.Schema | None,
        remote: bool,
        columns: Sequence[str] | None,
        row_groups: Sequence[int] | None,
        size: _BatchSize,
    ) -> None:
        self._file = file
        self._remote = remote
        metadata = read_footer(file)
        leaves = _leaves(metadata, columns)
        whole_bytes = min(CHUNKS_BYTES, CHUNKS_BATCHES * size.bytes)
        whole = remote or _most_bytes(metadata, leaves, row_groups) <= whole_bytes
        buffer = max(MIN_BUFFER_BYTES, min(BUFFER_BYTES, BUFFERS_BYTES // max(1, len(leaves))))
        own = checked(file, metadata)
        self._is_foreign = own is file
        self._parquet = pq.ParquetFile(
            own,
            metadata=metadata,
            pre_buffer=remote,
            buffer_size=0 if whole else buffer,
            page_checksum_verification=True,  # of files that others wrote
        )
        self.arrow_schema = self._parquet.schema_arrow
        self.num_row_groups = self._parquet.metadata.num_row_groups
        self._targets = {
            field.name: schema.field(field.name).type
            for field in self.arrow_schema
            if schema is not None
            and field.name in schema.names
            and schema.field(field.name).type != field.type
        }

    def existing(self, columns: Sequence[str] | None) -> list[str]:
        """Select these columns, or all there are. Raises KeyError: there is none of that name."""
        if columns is None:
            return list(self.arrow_schema.names)
        for name in columns:
            if self.arrow_schema.get_field_index(name) < 0:
                raise KeyError(f"it has no column {name!r}, only {self.arrow_schema.names}")
        return list(columns)

    def row_groups(self, wanted: Sequence[int] | None, kept_by: RowGroupFilter | None) -> list[int]:
        """The row groups wanted, or all there are, but for those that a filter leaves out."""
        groups = list(range(self.num_row_groups)) if wanted is None else list(wanted)
        if kept_by is None:
            return groups
        kept_by.total += len(groups)
        if kept_by.condition is not None and len(groups) > 1:
            with contextlib.suppress(*UNFIT):
                groups = self.prune(groups, kept_by.condition)
        kept_by.kept += len(groups)
        return groups

    def row_ranges(self, groups: Sequence[int]) -> Iterator[range]:
        """The positions of row groups' rows in the file."""
        metadata = self._parquet.metadata
        starts = [0]
        for group in range(self.num_row_groups):
            starts.append(starts[-1] + metadata.row_group(group).num_rows)
        for group in groups:
            yield range(starts[group], starts[group + 1])

    def prune(self, groups: list[int], filter: pc.Expression) -> list[int]:
        """The row groups that may have rows the filter holds for."""
        kept = may_hold(filter, self._file, self.arrow_schema)
        return [group for group in groups if group in kept]

    def batches(
        self, groups: list[int], names: list[str], size: _BatchSize
    ) -> Iterator[pa.RecordBatch]:
        widths = self._widths(groups, names)
        for run in self._runs(groups, min(REMOTE_READ_BYTES, size.bytes)):
            for rows, alike in groupby(run, key=lambda group: size.rows_of(widths[group])):
                for batch in self._parquet.iter_batches(
                    rows, row_groups=list(alike), columns=names, use_threads=False
                ):
                    yield self._cast(batch)

    def _widths(self, groups: Sequence[int], names: Sequence[str]) -> dict[int, int]:
        """Estimate the bytes that a row of each group takes in memory."""
        metadata = self._parquet.metadata
        wanted = set(names)
        leaves: list[int] = []
        first = 0
        for field in self.arrow_schema:
            count = _leaf_count(field.type)
            if field.name in wanted:
                leaves += range(first, first + count)
            first += count
        widths = {}
        for group in groups:
            chosen = metadata.row_group(group)
            total = sum(_decoded_bytes(chosen.column(leaf)) for leaf in leaves)
            widths[group] = -(-total // max(1, chosen.num_rows))
        return widths

    def _runs(self, groups: list[int], most_bytes: int) -> Iterator[list[int]]:
        """Row groups to read together: all of a local file's, as these are read as they come."""
        if not self._remote:
            if groups:
                yield groups
            return
        run: list[int] = []
        size = 0
        for group in groups:
            run.append(group)
            size += self._parquet.metadata.row_group(group).total_byte_size // 2
            if size >= most_bytes:
                yield run
                run, size = [], 0
        if run:
            yield run

    def _cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for index, name in enumerate(batch.schema.names):
            target = self._targets.get(name)
            if target is not None:
                array = pc.cast(batch.column(index), target, safe=False)
                batch = batch.set_column(index, pa.field(name, target), array)
        if self._is_foreign:
            _check_text(batch)
        return batch


def _check_text(batch: pa.RecordBatch) -> None:
    """Check what others wrote: Arrow takes any bytes for text, and Python does not."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _holds_text(column.type):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                raise pa.ArrowInvalid(f"column {name!r} holds no text: {error}") from None


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_holds_text(kind.field(number).type) for number in range(kind.num_fields))
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _leaf_count(kind: pa.DataType) -> int:
    """The Parquet columns of a column."""
    if not pa.types.is_nested(kind):
        return 1
    return sum(_leaf_count(kind.field(number).type) for number in range(kind.num_fields))


def _leaves(metadata: Any, columns: Sequence[str] | None) -> list[int]:
    """The Parquet columns, by number, that these columns may be made of."""
    if columns is None:
        return list(range(metadata.num_columns))
    wanted, schema = set(columns), metadata.schema
    return [n for n in range(metadata.num_columns) if _begins(schema.column(n).path, wanted)]


def _begins(path: str, columns: Set[str]) -> bool:
    """Whether a path begins with one of these names, which may have dots themselves."""
    while path not in columns:
        path, dot, _ = path.rpartition(".")
        if not dot:
            return False
    return True


def _most_bytes(metadata: Any, leaves: Sequence[int], row_groups: Sequence[int] | None) -> int:
    """Find what the largest of the row groups has of the Parquet columns, in the file."""
    numbers = range(metadata.num_row_groups) if row_groups is None else row_groups
    return max(
        (
            sum(group.column(leaf).total_compressed_size for leaf in leaves)
            for group in map(metadata.row_group, numbers)
        ),
        default=0,
    )


def _decoded_bytes(chunk: Any) -> int:
    """Find what a column chunk takes in memory, at least: a dictionary's values only once."""
    fixed: int = chunk.num_values * _WIDTHS.get(chunk.physical_type, _OFFSET_BYTES)
    if chunk.physical_type in _WIDTHS:
        return fixed
    return fixed + int(chunk.total_uncompressed_size)
