"""Writes the files that take the place of others in an overwrite."""

import dataclasses
import uuid
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from pkray.commit.overwriting import Partitions
from pkray.errors import CommitUnknownError, ServiceUnavailableError, UnsupportedError
from pkray.format import paths
from pkray.format.bucket import hash_rows
from pkray.format.commit_message import CommitMessage
from pkray.format.hash_index import unique, write_hashes
from pkray.format.partition import PartitionSpec
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.levels import Levels
from pkray.lsm.writer.bucket_writer import BucketWriter
from pkray.metadata.commit_name import CommitName, CommitToken
from pkray.metadata.live import BucketId
from pkray.options import DYNAMIC
from pkray.schema.table_schema import TableSchema
from pkray.service.calls import CoordinatorClient
from pkray.service.client.routing import Router, RowRouting
from pkray.service.protocol import CommitOutcome, OverwriteRequest
from pkray.storage.object_store import ObjectStore

_TRIES = 3
"""Times that an overwrite is written and sent, as long as it is not answered."""


def overwrite_once(
    coordinator: Callable[[], CoordinatorClient],
    clock: Callable[[], int],
    write: Callable[[], Sequence[CommitMessage]],
    replaced: Partitions,
    named: tuple[str, CommitName] | None = None,
    read_at: int | None = None,
    properties: dict[str, str] | None = None,
) -> CommitOutcome:
    """Put what is written in the place of partitions, once, though answers are lost.

    Args:
        coordinator: the table's.
        clock: epoch milliseconds.
        write: makes new files; again where an answer was lost and the commit did not happen, or
            was rolled back, as a rollback deletes the files that it meets.
        named: the commit user, and the name of the commit; default ones that no other has.
        read_at: the snapshot whose rows are replaced; None: whatever is there.
        properties: kept in the snapshot.

    Raises:
        CommitBaseMovedError: rows have changed since `read_at`; nothing was committed.
        CommitUnknownError, ServiceUnavailableError: whether it happened is not known.
    """
    user, name = named or (
        f"pkray-overwrite-{uuid.uuid4()}",
        CommitToken(str(uuid.uuid4()), clock()),
    )
    tries = 0
    while True:
        messages = write()
        request = OverwriteRequest(user, name, messages, replaced, read_at, properties)
        try:
            return coordinator().overwrite.once(request)
        except (ServiceUnavailableError, CommitUnknownError):
            tries += 1
            if tries == _TRIES:
                raise
        known = coordinator().committed(user, name)
        if known is not None:
            return known


class OverwriteWriter:
    """Builds buckets from nothing: one sorted run each, merged as the table does.

    Nothing of it is seen before its messages are committed. Rows are held within
    ``write-buffer-size``.

    Args:
        store: the table's root.
        clock: epoch milliseconds.
    """

    def __init__(self, store: ObjectStore, schema: TableSchema, clock: Callable[[], int]) -> None:
        self._store = store
        self._clock = clock
        self._table = schema
        # Overwrites make no changelog, and what they write is compacted as a whole.
        plain = {"changelog-producer": "none", "deletion-vectors.enabled": "false"}
        self._schema = dataclasses.replace(schema, options={**schema.options, **plain})
        self._dynamic = _DynamicBuckets(schema) if schema.core.bucket == DYNAMIC else None
        self._router = None if self._dynamic is not None else Router(schema)
        self._files: dict[BucketId, DataFileStore] = {}
        self._writers: dict[BucketId, BucketWriter] = {}

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[CommitMessage]:
        """Write rows with all value columns and ``_VALUE_KIND``: the files of each bucket. Where
        that fails, what was written is deleted.

        Raises:
            UnsupportedError: their keys may be in other partitions too.
        """
        try:
            self._take(batches)
            return self._finish()
        except BaseException:
            for writer in self._writers.values():
                writer.abort()
            raise

    def _take(self, batches: Iterable[pa.RecordBatch]) -> None:
        limit = self._table.core.write_buffer_size
        for batch in batches:
            if self._table.crosses_partitions:
                raise UnsupportedError(
                    "rows cannot take the place of partitions, as their keys "
                    f"{list(self._table.primary_keys)} may be in other partitions too: drop the "
                    "partitions, then upsert the rows",
                    primary_keys=self._table.primary_keys,
                    partition_keys=self._table.partition_keys,
                )
            placed = self._dynamic or self._router
            assert placed is not None
            for routed in placed.routing(batch).route(batch, 1).values():
                for piece in routed.slices:
                    rows = routed.rows.slice(piece.offset, piece.length)
                    self._writer((piece.partition, piece.bucket)).write(rows)
            held = {bucket: writer.memory_bytes for bucket, writer in self._writers.items()}
            while sum(held.values()) > limit:
                largest = max(held, key=held.__getitem__)
                held.pop(largest)
                self._writers[largest].flush()

    def _finish(self) -> list[CommitMessage]:
        """The files of each bucket; what was made on the way to them is deleted."""
        messages = []
        for bucket, writer in self._writers.items():
            made = writer.prepare_commit(full_compact=True)
            before = {file.file_name for file in made.compact_before}
            after = {file.file_name for file in made.compact_after}
            kept = [file for file in made.new_files if file.file_name not in before]
            self._files[bucket].delete(
                [file for file in made.compact_before if file.file_name not in after]
            )
            messages.append(
                CommitMessage(
                    partition=made.partition,
                    bucket=made.bucket,
                    total_buckets=made.total_buckets,
                    new_files=(*kept, *made.compact_after),
                )
            )
        if self._dynamic is None:
            return messages
        return [self._dynamic.indexed(message, self._store) for message in messages]

    def _writer(self, bucket: BucketId) -> BucketWriter:
        if bucket not in self._writers:
            files = DataFileStore(self._store, self._schema, *bucket)
            self._files[bucket] = files
            self._writers[bucket] = BucketWriter(self._schema, files, Levels(()), clock=self._clock)
        return self._writers[bucket]


class _DynamicBuckets:
    """Gives keys of an empty partition their buckets, one after the other as they fill up."""

    def __init__(self, schema: TableSchema) -> None:
        self._partitions = PartitionSpec(schema)
        self._keys = schema.trimmed_primary_keys
        self._types = schema.types(self._keys)
        self._limit = schema.core.dynamic_bucket_target_row_num
        self._known: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}
        self._names = paths.FileNames()

    def routing(self, rows: pa.RecordBatch) -> RowRouting:
        indices, partitions = self._partitions.encode(rows)
        hashes = hash_rows([rows.column(name) for name in self._keys], self._types)
        buckets = np.empty(len(hashes), np.int32)
        for index, partition in enumerate(partitions):
            at = np.flatnonzero(indices == index)
            buckets[at] = self._assign(partition, hashes[at])
        return RowRouting(indices, partitions, buckets)

    def indexed(self, message: CommitMessage, store: ObjectStore) -> CommitMessage:
        known, buckets = self._known[message.partition]
        file = write_hashes(store, self._names, known[buckets == message.bucket])
        return msgspec.structs.replace(message, index_files=(file,))

    def _assign(self, partition: bytes, hashes: np.ndarray) -> np.ndarray:
        empty = np.empty(0, np.int32)
        known, buckets = self._known.get(partition, (empty, empty))
        new = np.setdiff1d(unique(hashes), known, assume_unique=True)
        if len(new):
            numbers = (np.arange(len(known), len(known) + len(new)) // self._limit).astype(np.int32)
            known, buckets = np.concatenate([known, new]), np.concatenate([buckets, numbers])
            order = np.argsort(known, kind="stable")
            known, buckets = known[order], buckets[order]
            self._known[partition] = known, buckets
        found: np.ndarray = buckets[np.searchsorted(known, hashes)]
        return found
