"""Read runs merged: streamed in slices cut at a common key, so memory does not grow with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from pkray.format.data_file import DataFileMeta
from pkray.lsm.key_groups import KeyGroups, RowOrder, concat
from pkray.lsm.key_ranges import Section, sections
from pkray.lsm.keys import KeyBound, NormalizedKeys
from pkray.lsm.levels import SortedRun
from pkray.lsm.merge import MergeEngine, newest_images, without_deletes
from pkray.schema import KIND

if TYPE_CHECKING:
    from pkray.schema import TableSchema

SLICE_ROWS = 128 << 10
"""Rows held of all runs together, by default."""
MIN_READ_ROWS = 4 << 10
READ_ROWS = 64 << 10
"""Rows of a batch where nothing is merged."""


class FileReader(Protocol):
    """Reads key-value rows of one file (``DataFileStore``)."""

    def read(
        self, file: DataFileMeta, columns: Sequence[str] | None = None, *, batch_rows: int = ...
    ) -> Iterator[pa.RecordBatch]: ...


def merge_read(
    runs: Sequence[SortedRun],
    files: FileReader,
    engine: MergeEngine,
    schema: TableSchema,
    columns: Sequence[str] | None = None,
    *,
    drop_deletes: bool = True,
    batch_rows: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of some runs, one a key, in key order.

    Args:
        runs: newest first; they may be all of a bucket's, or any that follow one another.
        columns: of the rows yielded; by default all value columns.
        drop_deletes: leave out keys whose merged row is -U or -D. Leave False only when older
            runs are not among ``runs``; then ``columns`` should name ``_VALUE_KIND``.
        batch_rows: about how many rows to hold at a time, over all runs. Default 131,072.
    """
    wanted = list(columns) if columns is not None else [field.name for field in schema.fields]
    may_delete = drop_deletes and any(run.may_have_deletes for run in runs)
    order = row_order(runs, schema)
    for section in sections(runs, schema):
        extra = [KIND] if may_delete else []
        if len(section.runs) > 1:
            extra += [*order.columns, *engine.also_needed(wanted)]
            if not engine.keeps_newest and any(run.may_have_deletes for run in section.runs):
                extra.append(KIND)
        read = list(dict.fromkeys([*wanted, *extra]))
        for rows in _merged(section, files, engine, order, read, batch_rows):
            kept = without_deletes(rows) if may_delete else rows
            if kept.num_rows:
                yield kept if read == wanted else kept.select(wanted)


def row_order(runs: Sequence[SortedRun], schema: TableSchema) -> RowOrder:
    """How rows of these runs (newest first) compare.

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
    batch_rows: int | None,
) -> Iterator[pa.RecordBatch]:
    if len(section.runs) == 1:
        for file in section.runs[0].files:
            yield from files.read(file, columns, batch_rows=batch_rows or READ_ROWS)
        return
    above_0 = np.array([run.level > 0 for run in section.runs])
    for groups, source in section_groups(section, files, order, columns, batch_rows):
        yield engine.merge(newest_images(engine, groups, above_0[source]))


def section_groups(
    section: Section,
    files: FileReader,
    order: RowOrder,
    columns: list[str],
    batch_rows: int | None = None,
) -> Iterator[tuple[KeyGroups, np.ndarray]]:
    """A section's rows by key, with the number of the section's run of each row."""
    total = sum(run.row_count for run in section.runs)
    held = batch_rows or SLICE_ROWS

    def open_run(run: SortedRun) -> Iterator[pa.RecordBatch]:
        rows = max(MIN_READ_ROWS, held * run.row_count // max(total, 1))
        for file in run.files:
            yield from files.read(file, columns, batch_rows=min(rows, held))

    yield from group_sorted([open_run(run) for run in section.runs], order)


def group_sorted(
    streams: Sequence[Iterable[pa.RecordBatch]], order: RowOrder
) -> Iterator[tuple[KeyGroups, np.ndarray]]:
    """Bring streams of rows sorted by key together.

    Args:
        streams: oldest first.

    Yields:
        All rows of some keys, and for each row the number of its stream; keys ascend.
    """
    cursors = [_Cursor(number, iter(stream), order.keys) for number, stream in enumerate(streams)]
    cursors = [cursor for cursor in cursors if cursor.load()]
    while len(cursors) > 1:
        cut = min(cursor.last for cursor in cursors)
        pieces = [(cursor.number, cursor.take(cut)) for cursor in cursors]
        filled = [(number, rows) for number, rows in pieces if rows.num_rows]
        source = np.repeat([number for number, _ in filled], [len(rows) for _, rows in filled])
        rows = concat([rows for _, rows in filled])
        if len(filled) == 1:
            yield _alone(rows), source
        else:
            yield order.group(rows), source
        cursors = [cursor for cursor in cursors if cursor.load()]
    for cursor in cursors:
        for rows in cursor.rest():
            yield _alone(rows), np.full(len(rows), cursor.number)


def _alone(rows: pa.RecordBatch) -> KeyGroups:
    """Rows of distinct keys, sorted."""
    places = np.arange(rows.num_rows)
    return KeyGroups(rows, places, places)


KeysOf = Callable[[pa.RecordBatch], NormalizedKeys]


class _Cursor:
    """A place in one stream."""

    def __init__(self, number: int, batches: Iterator[pa.RecordBatch], keys_of: KeysOf) -> None:
        self.number = number
        self._batches = batches
        self._keys_of = keys_of
        self._rows: pa.RecordBatch | None = None
        self._at = 0

    def load(self) -> bool:
        """Make sure that there are rows; False at the end."""
        while self._rows is None or self._at == self._rows.num_rows:
            self._rows = next(self._batches, None)
            self._at = 0
            if self._rows is None:
                return False
            if self._rows.num_rows:
                self._keys = self._keys_of(self._rows)
                self.last = self._keys.bound(-1)
        return True

    def take(self, bound: KeyBound) -> pa.RecordBatch:
        """The rows up to a key."""
        assert self._rows is not None
        stop = self._rows.num_rows if self.last == bound else self._keys.count_le(bound)
        rows = self._rows.slice(self._at, stop - self._at)
        self._at = stop
        return rows

    def rest(self) -> Iterator[pa.RecordBatch]:
        assert self._rows is not None
        yield self._rows.slice(self._at)
        yield from self._batches
