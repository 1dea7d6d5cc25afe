"""Whole partitions: dropped, replaced, expired; and buckets of some, to be compacted."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from pkray.commit.overwriting import Partitions as Replaced
from pkray.errors import InputError, OptionError
from pkray.format.commit_message import CommitMessage
from pkray.format.partition import PartitionSpec
from pkray.format.partition_filter import ExactPartitions, PartitionFilter
from pkray.format.snapshot import Snapshot
from pkray.metadata.live import live_files
from pkray.metadata.snapshots import SnapshotStore
from pkray.scan.literals import fit, literal, mismatch
from pkray.schema.table_schema import TableSchema
from pkray.service.calls import CoordinatorClient
from pkray.service.client.overwrite import OverwriteWriter, overwrite_once
from pkray.service.client.pusher import incoming
from pkray.service.client.rescale import Rescale
from pkray.service.coordinator.maintenance import find_expired
from pkray.service.protocol import BucketSelection
from pkray.storage.object_store import ObjectStore

Values = Mapping[str, object]
"""By partition column; columns left out may have any value."""


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

    def __init__(
        self,
        store: ObjectStore,
        schema: TableSchema,
        coordinator: Callable[[], CoordinatorClient],
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._schema = schema
        self._coordinator = coordinator
        self._clock = clock

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
        return self._commit(lambda: (), _named(self._schema, partitions))

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
        schema = self._schema
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
            return OverwriteWriter(self._store, schema, self._clock).write(batches)

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
        replaced = _named(self._schema, [{}])

        def write() -> Sequence[CommitMessage]:
            return OverwriteWriter(self._store, self._schema, self._clock).write(rows())

        how = (named, read_at, properties)
        return overwrite_once(self._coordinator, self._clock, write, replaced, *how).snapshot

    def rescale(
        self,
        table: str,
        buckets: int,
        partitions: Sequence[Values] | None,
        progress: Callable[[int, int], None],
    ) -> TableSchema:
        """See `Rescale`; partitions are named as for `drop`."""
        chosen = None if partitions is None else _named(self._schema, partitions)
        work = Rescale(self._store, table, self._coordinator, self._clock, progress)
        return work.run(buckets, chosen)

    def expire(self) -> pa.Table:
        """Drop the partitions that ``partition.expiration-time`` and its strategy call old.

        Returns:
            Their values, a row each, oldest first.

        Raises:
            OptionError: the table does not set ``partition.expiration-time``.
        """
        schema = self._schema
        if schema.core.partition_expiration_time is None or not schema.partition_keys:
            raise OptionError(
                "no partition expires: the table has no partition columns, or does not set "
                "partition.expiration-time",
                key="partition.expiration-time",
            )
        spec = PartitionSpec(schema)
        old = find_expired(self._store, schema, SnapshotStore(self._store), self._clock())
        if old:
            self._commit(lambda: (), ExactPartitions(frozenset(old)))
        return pa.Table.from_arrays(spec.values(old), names=list(spec.names))

    def _commit(
        self, write: Callable[[], Sequence[CommitMessage]], replaced: Replaced
    ) -> Snapshot | None:
        return overwrite_once(self._coordinator, self._clock, write, replaced).snapshot


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
