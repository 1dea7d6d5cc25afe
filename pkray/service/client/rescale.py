"""Spreads a table's rows over another number of fixed buckets, concurrently with its writers."""

import uuid
from collections.abc import Callable, Iterator

import pyarrow as pa

from pkray.changelog.bucket_state import BucketState
from pkray.changelog.planner import min_changelog_level
from pkray.commit.index_files import index_files
from pkray.commit.overwriting import Partitions
from pkray.errors import CommitBaseMovedError, CommitUnknownError, ServiceUnavailableError
from pkray.format.data_file import DataFileMeta
from pkray.format.index_file import DELETION_VECTORS
from pkray.format.partition_filter import ExactPartitions
from pkray.format.snapshot import Snapshot
from pkray.lsm.writer.row_kinds import with_kinds
from pkray.metadata.live import live_files
from pkray.metadata.schemas import SchemaStore
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema import row_kind
from pkray.schema.changes import ChangeBuckets
from pkray.schema.table_schema import TableSchema
from pkray.service.calls import CoordinatorClient
from pkray.service.client.overwrite import OverwriteWriter
from pkray.service.protocol import BucketSelection, OverwriteRequest
from pkray.storage.object_store import ObjectStore

MAX_TRIES = 20
"""Times that one partition is rewritten while other processes change its rows."""
MAX_IN_DOUBT = 3
"""Times that one partition is rewritten as long as nobody says that it is."""

Files = dict[int, list[DataFileMeta]]
"""A partition's data files by bucket."""


class Rescale:
    """One change of the number of buckets.

    The schema with the new number is published first; then each partition is rewritten by an
    OVERWRITE snapshot of its own, after changelogs have told of all its rows. Data files carry the
    number of buckets they were written for, so that reads and lookups are right all the while.
    From the schema on, writers that are open get SchemaChangedError, and writers to a partition
    that is not rewritten yet get PartitionBucketsError. Killed at any point, it is run again and
    goes on where it was.

    Args:
        store: the table's root, or a branch.
        table: its name.
        coordinator: the table's, in whose turn with other commits each partition is replaced.
        clock: epoch milliseconds.
        progress: called with partitions done and partitions to do.
    """

    def __init__(
        self,
        store: ObjectStore,
        table: str,
        coordinator: Callable[[], CoordinatorClient],
        clock: Callable[[], int],
        progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> None:
        self._store = store
        self._schemas = SchemaStore(store, table)
        self._snapshots = SnapshotStore(store)
        self._coordinator = coordinator
        self._clock = clock
        self._progress = progress

    def run(self, buckets: int, chosen: Partitions | None = None) -> TableSchema:
        """Rescale; returns the table's schema from now on.

        Args:
            chosen: partitions to rewrite now, by default every one.

        Raises:
            OptionError: the table has dynamic buckets, or ``buckets`` is below 1.
            CommitBaseMovedError: other processes kept changing rows of one partition.
        """
        schema = self._schemas.latest()
        if schema.core.bucket != buckets:
            schema = self._schemas.change(
                [ChangeBuckets(buckets)],
                has_snapshots=lambda: self._snapshots.latest_id() is not None,
                clock=self._clock,
            )
        outstanding = self._outstanding(schema)
        todo = sorted(outstanding if chosen is None else chosen.select(outstanding))
        for done, partition in enumerate(todo):
            self._progress(done, len(todo))
            self._rewrite(schema, partition)
        self._progress(len(todo), len(todo))
        return schema

    def _outstanding(self, schema: TableSchema) -> set[bytes]:
        """Partitions with files that were written for another number of buckets."""
        snapshot = self._snapshots.latest()
        if snapshot is None:
            return set()
        entries = live_files(self._store, snapshot, schema)
        return {e.partition for e in entries if e.total_buckets != schema.core.bucket}

    def _rewrite(self, schema: TableSchema, partition: bytes) -> None:
        tries = in_doubt = 0
        while True:
            snapshot = self._snapshots.latest()
            files = self._files(snapshot, schema, partition)
            if snapshot is None or not files:
                return
            if self._is_untold(schema, files) and tries < MAX_TRIES:
                tries += 1
                self._tell(partition)
                continue
            writer = OverwriteWriter(self._store, schema, self._clock)
            messages = writer.write(self._rows(snapshot, schema, partition, files))
            replaced = ExactPartitions(frozenset([partition]))
            user = f"pkray-rescale-{uuid.uuid4()}"  # its only commit
            try:
                request = OverwriteRequest(user, 0, messages, replaced, read_at=snapshot.id)
                self._coordinator().overwrite.once(request)
                return
            except CommitBaseMovedError:
                tries += 1
                if tries >= MAX_TRIES:
                    raise
            except (CommitUnknownError, ServiceUnavailableError):
                # Whether it happened, the partition shows. Its files are not sent again: a
                # rollback may have met them.
                in_doubt += 1
                if in_doubt >= MAX_IN_DOUBT:
                    raise
                self._coordinator().ping()

    @staticmethod
    def _is_untold(schema: TableSchema, files: Files) -> bool:
        """Whether changelogs are still to tell of some rows: an overwrite has none."""
        min_level = min_changelog_level(schema.core)
        return any(file.level < min_level for held in files.values() for file in held)

    def _tell(self, partition: bytes) -> None:
        """Compact it, which makes the changelog."""
        chosen = BucketSelection(full=True, partitions=frozenset([partition]))
        self._coordinator().compact(chosen)

    def _files(self, snapshot: Snapshot | None, schema: TableSchema, partition: bytes) -> Files:
        """List the partition's files; no file where others have rewritten it meanwhile."""
        if snapshot is None:
            return {}
        found: Files = {}
        for entry in live_files(self._store, snapshot, schema, partitions=[partition]):
            if entry.total_buckets == schema.core.bucket:
                return {}
            found.setdefault(entry.bucket, []).append(entry.file)
        return found

    def _rows(
        self, snapshot: Snapshot, schema: TableSchema, partition: bytes, files: Files
    ) -> Iterator[pa.RecordBatch]:
        """The partition's rows, merged, as owners take them; level 0 too, whatever reads show."""
        vectors = index_files(self._store, snapshot, DELETION_VECTORS)
        for bucket, held in sorted(files.items()):
            marked = tuple(vectors.get((partition, bucket), ()))
            state = BucketState(partition, bucket, tuple(held), marked)
            for rows in state.rows(self._store, schema, schema.names):
                yield with_kinds(rows, row_kind.INSERT)
