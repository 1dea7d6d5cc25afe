"""Whole partitions: dropped, replaced, expired, rescaled; and buckets of some, to be compacted."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pkray.changelog.planner import min_changelog_level
from pkray.changelog.splits import BucketState
from pkray.commit.index_files import index_files
from pkray.commit.overwriting import Partitions
from pkray.commit.overwriting import Partitions as Replaced
from pkray.errors import (
    CommitBaseMovedError,
    CommitUnknownError,
    InputError,
    OptionError,
    ServiceUnavailableError,
)
from pkray.format.commit_message import CommitMessage
from pkray.format.data_file import DataFileMeta
from pkray.format.index_file import DELETION_VECTORS
from pkray.format.partition import PartitionSpec
from pkray.format.partition_filter import ExactPartitions, PartitionFilter
from pkray.format.snapshot import Snapshot
from pkray.lsm.writer.row_kinds import with_kinds
from pkray.metadata.live import live_files
from pkray.metadata.schemas import SchemaStore
from pkray.metadata.snapshots import SnapshotStore
from pkray.scan.literals import fit, literal, mismatch
from pkray.schema import row_kind
from pkray.schema.changes import ChangeBuckets
from pkray.schema.table_schema import TableSchema
from pkray.service.calls import CoordinatorClient
from pkray.service.client.overwrite import OverwriteWriter, overwrite_once
from pkray.service.client.pusher import incoming
from pkray.service.coordinator.maintenance import find_expired
from pkray.service.protocol import BucketSelection, OverwriteRequest
from pkray.storage.object_store import ObjectStore

Values = Mapping[str, object]
"""By partition column; columns left out may have any value."""


@dataclass(frozen=True)
class PartitionWork:
    """Changes whole partitions in one OVERWRITE snapshot.

    What writers have pushed and not committed is not touched: it comes on top when they commit.
    As in Paimon, such a snapshot has no changelog.

    Args:
        store: the table's root, or a branch.
        schema: the table's newest.
        coordinator: of the table's service.
        clock: epoch milliseconds.
    """

    store: ObjectStore
    schema: TableSchema
    coordinator: Callable[[], CoordinatorClient]
    clock: Callable[[], int]

    def drop(self, partitions: Sequence[Values]) -> Snapshot | None:
        """Remove all rows of partitions.

        Raises:
            InputError: a column that is no partition column, or a value that does not fit it.
            OptionError: no partition is named, or one without any value.
        """
        if isinstance(partitions, Mapping) or not partitions or not all(partitions):
            raise OptionError(
                f"cannot drop partitions {partitions!r}: give a list of values by partition "
                'column, such as [{"dt": "2026-01-31"}]; to empty the table, overwrite it',
                partitions=partitions,
            )
        return self._commit(lambda: (), _named(self.schema, partitions))

    def overwrite(self, data: object, partition: Values | None) -> Snapshot | None:
        """Replace the rows of partitions by new ones.

        Args:
            partition: which ones, whole or in part; ``{}`` is all of the table. By default those
                that have new rows; all of the table where it has no partitions or
                ``dynamic-partition-overwrite`` is false.

        Returns:
            The snapshot; None where there was nothing to replace.

        Raises:
            InputError: the rows do not fit the table or the partition; nothing was written.
        """
        schema = self.schema
        dynamic = schema.core.dynamic_partition_overwrite and bool(schema.partition_keys)
        batches = list(incoming(data, schema))
        exact = frozenset(
            row for batch in batches for row in PartitionSpec(schema).encode(batch)[1]
        )
        if partition is None and dynamic:
            if not exact:
                return None
            replaced: Replaced = ExactPartitions(exact)
        else:
            replaced = _named(schema, [partition or {}])
            outside = exact - frozenset(replaced.select(exact))
            if outside:
                other = PartitionSpec(schema).to_dict(next(iter(outside)))
                raise InputError(
                    f"rows of partition {other} cannot replace those of {dict(partition or {})}: "
                    "leave them out, or name their partition",
                    partition=other,
                )

        def write() -> Sequence[CommitMessage]:
            return OverwriteWriter(self.store, schema, self.clock).write(batches)

        return self._commit(write, replaced)

    def replace_all(
        self,
        rows: Callable[[], Iterable[pa.RecordBatch]],
        named: tuple[str, int],
        read_at: int,
        properties: dict[str, str],
    ) -> Snapshot | None:
        """Replace the whole content as of a snapshot, in a commit that has a name.

        Args:
            rows: gives batches with all value columns and ``_VALUE_KIND``, which are merged as
                the table does; called again where an answer was lost.
            named: the commit user and identifier; one that was committed before changes nothing.
            read_at: the snapshot; 0 before the first.
            properties: kept in the snapshot.

        Raises:
            CommitBaseMovedError: rows were written since; nothing was committed.
            UnsupportedError: keys may be in several partitions.
        """
        replaced = _named(self.schema, [{}])

        def write() -> Sequence[CommitMessage]:
            return OverwriteWriter(self.store, self.schema, self.clock).write(rows())

        how = (named, read_at, properties)
        return overwrite_once(self.coordinator, self.clock, write, replaced, *how).snapshot

    def rescale(
        self,
        table: str,
        buckets: int,
        partitions: Sequence[Values] | None,
        progress: Callable[[int, int], None],
    ) -> TableSchema:
        """See `Rescale`; partitions are named as for `drop`."""
        chosen = None if partitions is None else _named(self.schema, partitions)
        work = Rescale(self.store, table, self.coordinator, self.clock, progress)
        return work.run(buckets, chosen)

    def expire(self) -> pa.Table:
        """Drop the partitions that ``partition.expiration-time`` and its strategy call old.

        Returns:
            Their values, a row each, oldest first.

        Raises:
            OptionError: the table does not set ``partition.expiration-time``.
        """
        schema = self.schema
        if schema.core.partition_expiration_time is None or not schema.partition_keys:
            raise OptionError(
                "no partition expires: the table has no partition columns, or does not set "
                "partition.expiration-time",
                key="partition.expiration-time",
            )
        spec = PartitionSpec(schema)
        old = find_expired(self.store, schema, SnapshotStore(self.store), self.clock())
        if old:
            self._commit(lambda: (), ExactPartitions(frozenset(old)))
        return pa.Table.from_arrays(spec.values(old), names=list(spec.names))

    def _commit(
        self, write: Callable[[], Sequence[CommitMessage]], replaced: Replaced
    ) -> Snapshot | None:
        return overwrite_once(self.coordinator, self.clock, write, replaced).snapshot


def select_buckets(
    store: ObjectStore,
    schema: TableSchema,
    full: bool,
    partitions: Sequence[Values] | None,
    buckets: Sequence[int] | None,
) -> BucketSelection:
    """Select the buckets of these partitions and numbers to be compacted; all by default.

    Raises:
        InputError: a column that is no partition column, or a value that does not fit it; a
            bucket below 0.
    """
    if buckets is not None and min(buckets, default=0) < 0:
        raise InputError(
            f"buckets cannot be {buckets!r}: give a list of bucket numbers, such as [0, 3]",
            value=buckets,
        )
    found = None
    if partitions is not None:
        wanted, latest = _named(schema, partitions), SnapshotStore(store).latest()
        entries = live_files(store, latest, schema) if latest is not None and partitions else ()
        found = wanted.select({entry.partition for entry in entries})
    numbers = None if buckets is None else frozenset(buckets)
    return BucketSelection(full=full, partitions=found, buckets=numbers)


def _named(schema: TableSchema, partitions: Sequence[Values]) -> PartitionFilter:
    wanted = [
        {name: _scalar(schema, name, value) for name, value in each.items()} for each in partitions
    ]
    return PartitionFilter(PartitionSpec(schema), wanted)


def _scalar(schema: TableSchema, name: str, value: object) -> pa.Scalar:
    if name not in schema.partition_keys:
        keys = ", ".join(schema.partition_keys) or "none"
        raise InputError(
            f"{name!r} is no partition column; the partition columns are: {keys}", column=name
        )
    field = schema.field(name)
    given = literal(value)
    if given is None:
        return pa.scalar(None, field.type.arrow)
    fitted = fit(given, field)
    if not fitted.exact:
        raise mismatch(given, field)
    return fitted.value


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
