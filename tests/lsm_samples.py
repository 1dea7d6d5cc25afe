"""A bucket to write to, read and look into; and rows for it."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from pkray.format.commit_message import CommitMessage
from pkray.format.data_file import DataFileMeta, SimpleStats
from pkray.lsm.compaction import upper_lookup
from pkray.lsm.compaction.flushed_rows_cache import FlushedRowsCache
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.deletion_files import read_vectors
from pkray.lsm.engines import merge_engine
from pkray.lsm.levels import Levels, SortedRun
from pkray.lsm.merge import merge_read as merge_read_module
from pkray.lsm.merge.merge_read import LiveRows, merge_read, raw_read
from pkray.lsm.writer import memtable
from pkray.lsm.writer.bucket_writer import BucketWriter
from pkray.schema.table_schema import KIND, TableSchema
from pkray.storage.opening import open_store

FRESH_BYTES = 4 << 10
"""So little that some files are read from memory, others from the store."""
KINDS = ("+I", "-U", "+U", "-D")
UNPARTITIONED = bytes(12)
COLUMNS = (("k", "BIGINT NOT NULL"), ("v", "STRING"), ("n", "INT"))

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut rows into many slices and blocks, as large data is."""
    monkeypatch.setattr(merge_read_module, "SLICE_ROWS", 8)
    monkeypatch.setattr(merge_read_module, "MIN_READ_ROWS", 2)
    monkeypatch.setattr(merge_read_module, "READ_ROWS", 3)
    monkeypatch.setattr(memtable, "BLOCK_KEYS", 3)
    monkeypatch.setattr(upper_lookup, "READ_ROWS", 3)


def make_schema(
    columns: Sequence[tuple[str, str]] = COLUMNS, keys: Sequence[str] = ("k",), **options: str
) -> TableSchema:
    """Option keys are written with underscores for dots and hyphens as in ``OPTIONS``."""
    named = {OPTIONS.get(name, name): value for name, value in options.items()}
    return TableSchema.create(columns, keys, (), {"bucket": "1", **named})


OPTIONS = {
    "producer": "changelog-producer",
    "sequence": "sequence.field",
    "order": "sequence.field.sort-order",
    "trigger": "num-sorted-run.compaction-trigger",
    "target": "target-file-size",
    "buffer": "write-buffer-size",
    "write_only": "write-only",
    "row_deduplicate": "changelog-producer.row-deduplicate",
    "ignored_fields": "changelog-producer.row-deduplicate-ignore-fields",
    "delta_commits": "full-compaction.delta-commits",
    "vectors": "deletion-vectors.enabled",
    "rowkind": "rowkind.field",
    "ignore_delete": "ignore-delete",
    "ignore_update_before": "ignore-update-before",
    "engine": "merge-engine",
}


class Bucket:
    """One bucket with a writer, committing by itself."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.store = open_store(f"memory://bucket-{next(_numbers)}")
        self.committed = Levels()
        self.messages: list[CommitMessage] = []
        self.reopen()

    def reopen(self) -> None:
        """A new writer on what is committed, as after a crash."""
        fresh = FlushedRowsCache(FRESH_BYTES, lambda: self.writer.memory_bytes)
        self.files = DataFileStore(
            self.store, self.schema, UNPARTITIONED, 0, clock=lambda: 7, flushed_rows=fresh
        )
        self.writer = BucketWriter(self.schema, self.files, self.committed, clock=lambda: 7)

    def write(self, *rows: Sequence[Any]) -> None:
        """Rows as (kind, value, …)."""
        self.writer.write(incoming(self.schema, rows))

    def commit(self, *, full: bool = False) -> list[tuple[Any, ...]]:
        """Commit, and return the changelog."""
        message = self.writer.prepare_commit(full_compact=full)
        self.messages.append(message)
        self.committed = self.committed.apply((), message.new_files)
        self.committed = self.committed.apply(message.compact_before, message.compact_after)
        if message.index_types:
            assert set(message.index_base) == set(self.committed.vector_files)
            vectors = read_vectors(self.store, message.index_files)
            names = tuple(sorted(file.file_name for file in message.index_files))
            self.committed = self.committed.with_vectors(vectors, names)
        self.writer.committed(self.committed)
        return self.rows_of([*message.changelog_files, *message.compact_changelog_files])

    def crash_before_compact(self) -> None:
        """Commit the APPEND snapshot alone, and lose the process."""
        message = self.writer.prepare_commit()
        self.committed = self.committed.apply((), message.new_files)
        self.reopen()

    def rows_of(self, files: Iterable[DataFileMeta]) -> list[tuple[Any, ...]]:
        """Rows of files as they lie, as (kind, value, …)."""
        names = [KIND, *self.schema.names]
        return [
            (KINDS[kind], *values)
            for file in files
            for kind, *values in rows_of(self.files.read(file, names))
        ]

    def content(self, levels: Levels | None = None, **options: Any) -> list[tuple[Any, ...]]:
        """The merged rows of the committed files, as readers see them."""
        if levels is None and self.schema.core.deletion_vectors_enabled:
            files = self.committed.compacted().files
            vectors = self.committed.vectors
            rows = rows_of(raw_read(files, self.files, vectors, self.schema.names))
            return sorted(rows, key=lambda row: row[0])
        levels = self.committed if levels is None else levels
        engine = merge_engine(self.schema)
        files = LiveRows(self.files, levels.vectors)
        return rows_of(merge_read(levels.runs(), files, engine, self.schema, **options))

    def latest(self) -> list[tuple[Any, ...]]:
        """The merged rows of the writer's files; what is in memory not among them."""
        return self.content(self.writer.levels)

    def stored(self) -> set[str]:
        return {status.path.rsplit("/", 1)[1] for status in self.store.list("")}


def incoming(schema: TableSchema, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    arrays = [
        pa.array([row[number + 1] for row in rows], field.type)
        for number, field in enumerate(schema.arrow_schema)
    ]
    kinds = pa.array([KINDS.index(row[0]) for row in rows], pa.int8())
    fields = [*schema.arrow_schema, pa.field(KIND, pa.int8())]
    return pa.RecordBatch.from_arrays([*arrays, kinds], schema=pa.schema(fields))


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return [
        row
        for batch in batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]


def apply_changelog(rows: Iterable[Sequence[Any]], table: dict[Any, Any]) -> None:
    """Replay onto a table by first value, checking every old image against it."""
    for kind, key, *values in rows:
        if kind in ("-U", "-D"):
            assert table.pop(key) == values
        else:
            assert key not in table
            table[key] = values


_NO_STATS = SimpleStats(UNPARTITIONED, UNPARTITIONED, ())


def file_of(name: str, level: int, size: int = 1, **fields: Any) -> DataFileMeta:
    """Metadata without a file."""
    plain = {
        "row_count": 1,
        "min_key": b"",
        "max_key": b"",
        "key_stats": _NO_STATS,
        "value_stats": _NO_STATS,
        "min_sequence_number": 0,
        "max_sequence_number": 0,
        "schema_id": 0,
    }
    return DataFileMeta(file_name=name, level=level, file_size=size, **{**plain, **fields})


def run_of(level: int, size: int) -> SortedRun:
    return SortedRun(level, (file_of(f"f{next(_numbers)}", level, size),))
