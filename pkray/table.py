"""A table, as its users hold it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pkray.changelog.between import BetweenMode
from pkray.changelog.changes import Changes
from pkray.changelog.start import StartMode
from pkray.changelog.stream import ChangeStream
from pkray.commit.expiry_report import ExpiryReport
from pkray.commit.rollback import RollbackReport
from pkray.commit.schemas import SchemaStore
from pkray.errors import OptionError, SnapshotNotFoundError
from pkray.format.snapshot import Snapshot
from pkray.input import conform, conform_prefixes
from pkray.maintenance.alter import Alter
from pkray.maintenance.branches import Branches
from pkray.maintenance.consumers import Consumers
from pkray.maintenance.expiry import expire_snapshots
from pkray.maintenance.orphans import remove_orphan_files
from pkray.maintenance.partitions import PartitionWork
from pkray.maintenance.rollback import roll_back
from pkray.maintenance.tags import Tags
from pkray.scan.plan import ScanPlanner
from pkray.scan.report import ScanReport
from pkray.scan.split import Split, arrow_schema
from pkray.scan.travel import History, Moment, Timestamp, names_changes
from pkray.scan.view import SnapshotView
from pkray.schema import TableSchema
from pkray.service.compaction_choice import choose
from pkray.service.dedicated import CompactionReport, DedicatedCompaction, Progress
from pkray.service.local import now_millis
from pkray.service.lookup_client import LookupClient
from pkray.service.protocol import CommitOutcome, Visibility
from pkray.service.push_session import PushSession
from pkray.service.runtime import Runtime, TableService
from pkray.service.writer import TableWriter
from pkray.storage.location import TableLocation
from pkray.system import SystemTables


class Table:
    """A keyed table; made by `Catalog.create_table` and `Catalog.load_table`."""

    def __init__(self, location: TableLocation, schema: TableSchema, runtime: Runtime) -> None:
        self.location = location
        self.schema = schema
        self.runtime = runtime
        self._store = location.open()
        self._use(schema)
        self._schemas = SchemaStore(self._store, self.name)
        self._history = History(self._store)

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {self.location.url!r})"

    @property
    def name(self) -> str:
        """``database.table``."""
        return self.location.name

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as reads yield them."""
        return self.schema.arrow_schema

    @property
    def options(self) -> dict[str, str]:
        """The options that were set."""
        return dict(self.schema.options)

    @property
    def alter(self) -> Alter:
        """Changes of the columns, options and comments: ``table.alter.add_column("x", "INT")``."""
        return Alter(self._store, self.name, self._use)

    def open_writer(self, commit_user: str | None = None) -> TableWriter:
        """A writer; use it in a ``with`` block.

        Args:
            commit_user: names the writer over restarts: its commits happen once. Default a new
                name.
        """
        self.schema.core.require_supported()
        service = self._service()
        user = commit_user or f"pkray-{uuid.uuid4()}"
        return TableWriter(
            self.schema,
            service.coordinator,
            service.owners,
            user,
            keep=service.keep,
            fetch=service.fetch,
        )

    def open_push(self, commit_user: str, commit_identifier: int) -> PushSession:
        """A distributed push: tasks send rows straight to the owners, then it is committed."""
        self.schema.core.require_supported()
        service = self._service()
        coordinator = service.coordinator
        known: CommitOutcome | None = coordinator.call("committed", commit_user, commit_identifier)
        session = coordinator.call("begin", commit_user)
        target = service.push_target(session, self.schema)
        return PushSession(coordinator, service.owners, session, commit_identifier, target, known)

    def lookup(
        self,
        keys: object,
        *,
        columns: Sequence[str] | None = None,
        visibility: Visibility = "latest",
        snapshot_id: int | None = None,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> pa.Table:
        """Rows by primary key, in the order asked; absent keys are left out.

        Args:
            keys: the primary key columns: pa.Table, RecordBatch, pandas or a list of dicts.
            columns: what to return; default every column.
            visibility: ``latest`` also sees rows that are written but not committed;
                ``committed`` sees a snapshot.
            snapshot_id, tag, timestamp, watermark: with ``committed``, a moment as of `view`,
                instead of the newest snapshot.

        Raises:
            InputError: the keys do not fit the table.
            OptionError: ``visibility`` is another word, or a moment goes with ``latest``.
        """
        view = self._lookup_view(visibility, snapshot_id, tag, timestamp, watermark)
        schema = view.schema if view else self.schema
        wanted = arrow_schema(schema, _known(columns, schema))
        checked = conform(keys, schema, keys_only=True).select(schema.primary_keys)
        if view is None or view.snapshot is None:
            return self._lookup_client(schema).find(checked, wanted, visibility, None)
        if tag is not None and not self._history.holds(view.snapshot):
            return view.find(checked, wanted)  # the owners know snapshots by their ids
        return self._lookup_client(schema).find(checked, wanted, visibility, view.snapshot.id)

    def lookup_prefix(
        self,
        keys: object,
        *,
        columns: Sequence[str] | None = None,
        visibility: Visibility = "latest",
        snapshot_id: int | None = None,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> pa.Table:
        """All rows whose primary key begins with given values: in the order asked, and the rows
        of each in key order.

        One bucket is asked where the values have the ``bucket-key``, else each of the partition.

        Args:
            keys: the first columns of the primary key (less the partition columns), with all
                partition columns or none, which means every partition; as `lookup` takes keys.
                Text columns match as a whole.
            columns, visibility, snapshot_id, tag, timestamp, watermark: as of `lookup`.

        Raises:
            InputError, OptionError: as `lookup`.
        """
        view = self._lookup_view(visibility, snapshot_id, tag, timestamp, watermark)
        schema = view.schema if view else self.schema
        wanted = arrow_schema(schema, _known(columns, schema))
        checked = conform_prefixes(keys, schema)
        if view is None or view.snapshot is None:
            client = self._lookup_client(schema)
            return client.find_prefixes(checked, wanted, visibility, None)
        if tag is not None and not self._history.holds(view.snapshot):
            return view.find_prefixes(checked, wanted)
        client = self._lookup_client(schema)
        return client.find_prefixes(checked, wanted, visibility, view.snapshot.id)

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        filter: object = None,
        snapshot_id: int | None = None,
        *,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> pa.Table:
        """The committed rows, merged; of a table with ``incremental-between`` those that changed.

        Args:
            columns: what to read; default every column.
            filter: SQL text such as ``"amount > 10 AND id IN (1, 2)"``, pyarrow-style lists of
                tuples, or a pyarrow expression.
            snapshot_id, tag, timestamp, watermark: a moment as of `view`.

        Raises:
            InputError: a column the table does not have, or a filter that is not understood.
            SnapshotNotFoundError: the snapshot has expired or was never made.
        """
        if self._reads_changes(snapshot_id, tag, timestamp, watermark):
            rows = self._changes().rows_between(columns, filter)
            return pa.Table.from_batches(rows, arrow_schema(self.schema, columns))
        return self.view(snapshot_id, tag, timestamp, watermark).to_arrow(columns, filter)

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        filter: object = None,
        snapshot_id: int | None = None,
        *,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """As `to_arrow`, batch by batch in bounded memory."""
        if self._reads_changes(snapshot_id, tag, timestamp, watermark):
            return self._changes().rows_between(columns, filter)
        return self.view(snapshot_id, tag, timestamp, watermark).batches(columns, filter)

    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        filter: object = None,
        snapshot_id: int | None = None,
        *,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> Any:
        """As `to_arrow`, as a pandas DataFrame."""
        found = self.to_arrow(
            columns, filter, snapshot_id, tag=tag, timestamp=timestamp, watermark=watermark
        )
        return found.to_pandas()

    def splits(
        self,
        columns: Sequence[str] | None = None,
        filter: object = None,
        snapshot_id: int | None = None,
        *,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> list[Split]:
        """The read in parts for other processes: each pickles and has ``read()``."""
        return self.view(snapshot_id, tag, timestamp, watermark).splits(columns, filter)

    def explain(
        self,
        columns: Sequence[str] | None = None,
        filter: object = None,
        snapshot_id: int | None = None,
        *,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> ScanReport:
        """What `to_arrow` would read of the table: print it, or take its counts."""
        return self.view(snapshot_id, tag, timestamp, watermark).explain(columns, filter)

    def view(
        self,
        snapshot_id: int | None = None,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> SnapshotView:
        """The table at one moment, with the columns that it had then.

        By default the moment that its ``scan.*`` options name, or else now.

        Args:
            snapshot_id: a snapshot.
            tag: the snapshot of a tag, even if it has expired otherwise.
            timestamp: the newest snapshot at or before it: epoch milliseconds, a datetime or ISO
                text; those without a zone are local time.
            watermark: the oldest snapshot whose watermark is not below it; milliseconds.

        Raises:
            OptionError: a moment is named twice, or the timestamp is none.
            SnapshotNotFoundError: there is no such snapshot, or it has expired.
            TagNotFoundError: there is no such tag.
        """
        moment = Moment.of(self.schema.core, snapshot_id, tag, timestamp, watermark)
        snapshot, schema, planner = self._history.find(moment), self.schema, self._planner
        if snapshot and not moment.is_latest and snapshot.schema_id != schema.id:
            schema = self._schemas.read(snapshot.schema_id)
            planner = ScanPlanner(self.location, self._store, schema)
        return SnapshotView(self._store, planner, schema, snapshot)

    def changelog(
        self,
        from_snapshot: int | None = None,
        to_snapshot: int | None = None,
        *,
        from_tag: str | None = None,
        to_tag: str | None = None,
        from_timestamp: Timestamp | None = None,
        to_timestamp: Timestamp | None = None,
        normalize: bool = False,
    ) -> pa.Table:
        """What changed, snapshot by snapshot.

        Overwrites are left out, unless the table sets ``streaming-read-overwrite`` or
        ``normalize`` is given.

        Args:
            from_snapshot, from_tag: the first snapshot, included. Default the earliest whose
                changes are there.
            to_snapshot, to_tag: the last snapshot, included. Default the newest.
            from_timestamp, to_timestamp: the first snapshot of that time or later, the last one
                of that time or before; as of `view`.
            normalize: as of `stream`.

        Returns:
            ``_row_kind`` ('+I', '-U', '+U', '-D'), ``_snapshot_id``, then the table's columns.

        Raises:
            SnapshotNotFoundError: some of these changes have expired; says which are there.
            OptionError: one end is named twice.
        """
        reader = self._changes().reader(normalize)
        batches = reader.read(
            from_snapshot,
            to_snapshot,
            from_tag=from_tag,
            to_tag=to_tag,
            from_timestamp=from_timestamp,
            to_timestamp=to_timestamp,
        )
        return pa.Table.from_batches(batches, reader.schema)

    def changelog_batches(
        self,
        from_snapshot: int | None = None,
        to_snapshot: int | None = None,
        *,
        from_tag: str | None = None,
        to_tag: str | None = None,
        from_timestamp: Timestamp | None = None,
        to_timestamp: Timestamp | None = None,
        normalize: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """As `changelog`, batch by batch in bounded memory."""
        return (
            self._changes()
            .reader(normalize)
            .read(
                from_snapshot,
                to_snapshot,
                from_tag=from_tag,
                to_tag=to_tag,
                from_timestamp=from_timestamp,
                to_timestamp=to_timestamp,
            )
        )

    def changes(
        self,
        start: int | str | None = None,
        end: int | str | None = None,
        *,
        start_timestamp: Timestamp | None = None,
        end_timestamp: Timestamp | None = None,
        mode: BetweenMode | None = None,
        columns: Sequence[str] | None = None,
        filter: object = None,
    ) -> pa.Table:
        """What changed between two snapshots, in sum: the last change of each key.

        Args:
            start, end: snapshot ids or tags; what changed after ``start``, up to ``end``. 0 is
                before the first snapshot. Default what the table's ``incremental-between`` or
                ``incremental-between-timestamp`` says.
            start_timestamp, end_timestamp: or times, as of `view`.
            mode: ``delta``, what writers added; ``changelog``, what changelog files say;
                ``diff``, what is another row at ``end``; ``auto``, ``diff`` between two tags,
                else ``changelog`` where the table has a changelog producer and ``delta`` where
                not. Default ``incremental-between-scan-mode``.
            columns, filter: as of `to_arrow`; a change whose row does not meet the filter is left
                out.

        Returns:
            ``_row_kind`` ('+I', '+U', '-D'), then the columns; a row a key.

        Raises:
            OptionError: the ends contradict each other, or one is missing.
            SnapshotNotFoundError: some of these changes have expired.
            TagNotFoundError: there is no such tag.
        """
        return (
            self._changes()
            .between(start, end, start_timestamp, end_timestamp, mode, columns, filter)
            .read_all()
        )

    def stream(
        self,
        consumer_id: str | None = None,
        mode: StartMode | None = None,
        from_snapshot: int | None = None,
        from_timestamp: Timestamp | None = None,
        poll_interval: float | None = None,
        until_snapshot: int | None = None,
        *,
        until_watermark: int | None = None,
        normalize: bool = False,
        columns: Sequence[str] | None = None,
        filter: object = None,
        consumer_mode: str | None = None,
        ignore_progress: bool | None = None,
    ) -> ChangeStream:
        """The table's changes as they come: iterate over it, and close it.

        Columns added or renamed meanwhile do not show: the stream has the columns that the table
        has now.

        Args:
            consumer_id: keep the place under this name, and keep what is not read yet from
                expiring; a consumer that is there goes on where it was. Default ``consumer-id``.
            mode: ``latest-full`` (the table as it is, as +I, then its changes; the default),
                ``latest`` (changes that are to come), ``from-snapshot`` (that snapshot's changes
                on), ``from-snapshot-full`` (the table as of that snapshot, then its changes),
                ``from-timestamp``, or ``compacted-full`` (the table as the newest compaction left
                it). Default ``scan.mode``.
            from_snapshot, from_timestamp: what the mode needs; alone they say the mode.
            poll_interval: seconds between two looks for new snapshots. Default
                ``continuous.discovery-interval``.
            until_snapshot: end after it. Default: wait for ever.
            until_watermark: end before a snapshot with a greater watermark. Default
                ``scan.bounded.watermark``.
            normalize: complete changes (-U with the row that was there, +U) of a table whose
                changelog producer is ``none`` or ``input``, and of overwrites. It costs a lookup
                of each changed key in two snapshots, and local disk.
            columns, filter: as of `to_arrow`; a change whose row does not meet the filter is left
                out.
            consumer_mode: ``exactly-once`` records the place whenever a snapshot was taken,
                ``at-least-once`` every ``poll_interval`` at most. Default ``consumer.mode``.
            ignore_progress: begin anew, whatever the consumer read before. Default
                ``consumer.ignore-progress``.

        Returns:
            An iterator of batches: ``_row_kind``, ``_snapshot_id``, then the columns.

        Raises:
            OptionError: arguments that contradict each other.
            UnsupportedError: without a changelog producer, a merge engine other than deduplicate
                is read with ``normalize`` alone.
            SnapshotNotFoundError: while iterating: changes to be read have expired; says which
                are there.
        """
        return self._changes().stream(
            consumer_id,
            mode,
            from_snapshot,
            from_timestamp,
            poll_interval,
            until_snapshot,
            until_watermark,
            normalize,
            columns,
            filter,
            consumer_mode,
            ignore_progress,
        )

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot; None before the first commit."""
        return self._planner.snapshot()

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """One snapshot.

        Raises:
            SnapshotNotFoundError: it has expired or was never made.
        """
        found = self._planner.snapshot(snapshot_id)
        if found is None:
            raise SnapshotNotFoundError(
                f"snapshot {snapshot_id} of {self.name} does not exist", snapshot_id=snapshot_id
            )
        return found

    def snapshots(self) -> pa.Table:
        """The snapshots that are kept, oldest first, a row each."""
        return self.system("snapshots")

    def files(self, snapshot_id: int | None = None) -> pa.Table:
        """The live data files of a snapshot, a row each."""
        return self.system("files", snapshot_id)

    def system(
        self,
        name: str,
        snapshot_id: int | None = None,
        *,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
    ) -> pa.Table:
        """A system table, by Paimon's names: ``snapshots``, ``schemas``, ``options``,
        ``manifests``, ``files``, ``partitions``, ``buckets``, ``table_indexes``, ``tags``,
        ``branches``, ``consumers``, ``aggregation_fields``, ``statistics``, ``audit_log``, ``ro``.

        Args:
            snapshot_id, tag, timestamp: of what shows the contents of one snapshot; default the
                newest. As of `to_arrow`.

        Raises:
            TableNotFoundError: there is no such system table.
            SnapshotNotFoundError: the snapshot has expired or was never made.
        """
        moment = None
        if (snapshot_id, tag, timestamp) != (None, None, None):
            moment = self.view(snapshot_id, tag, timestamp).snapshot
        return SystemTables(self.location, self._store, self.schema).read(name, moment)

    def compact(
        self,
        full: bool = True,
        partitions: Sequence[Mapping[str, object]] | None = None,
        buckets: Sequence[int] | None = None,
    ) -> Snapshot | None:
        """Compact what is committed, beside writing; returns when that is committed.

        Args:
            full: into one sorted run a bucket; otherwise where the sorted runs are due for it.
            partitions: these only, such as ``[{"dt": "a"}]``; a mapping may leave columns out.
            buckets: these only, of each partition.

        Returns:
            The COMPACT snapshot, or None when there was nothing to compact.
        """
        chosen = choose(self._store, self.schema, full, partitions, buckets)
        outcome: CommitOutcome = self._service().coordinator.call("compact", chosen)
        return outcome.snapshot

    @property
    def tags(self) -> Tags:
        """Snapshots with names, which do not expire: ``table.tags.create("v1")``."""
        return Tags(self.location, self._store, self.schema, now_millis)

    @property
    def branches(self) -> Branches:
        """Histories of their own beside the table's: ``table.branches.create("b", tag="v1")``."""
        return Branches(self.location, self._store, self.schema, self.runtime.stop)

    def branch(self, name: str) -> Table:
        """A branch of the table, to be read and written as a table; ``main`` is the table itself.

        Raises:
            BranchNotFoundError: there is none.
        """
        location = self.branches.locate(name)
        schema = SchemaStore(location.open(), location.name).latest()
        return Table(location, schema, self.runtime)

    def rollback_to(self, snapshot_id: int | None = None, tag: str | None = None) -> RollbackReport:
        """Make an older snapshot the newest: later snapshots and tags are removed, and the files
        that only they named. Rows that are written but not committed stay.

        Args:
            snapshot_id: the snapshot to go back to.
            tag: or the tag, even if its snapshot has expired.

        Raises:
            OptionError: none of them or both.
            SnapshotNotFoundError: the snapshot has expired or was never made.
            TagNotFoundError: there is no such tag.
        """
        return roll_back(self._store, self._schemas.latest(), snapshot_id, tag)

    @property
    def consumers(self) -> Consumers:
        """Readers of the changes that keep their place: ``table.consumers.reset("job", 7)``."""
        return Consumers(self._store)

    def expire_snapshots(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: Timestamp | None = None,
        max_deletes: int | None = None,
    ) -> ExpiryReport:
        """Expire old snapshots and the files only they name, as also happens after commits.

        Tags and what consumers have still to read stay.

        Args:
            retain_max, retain_min: in place of ``snapshot.num-retained.max`` and ``.min``.
            older_than: younger ones stay, in place of ``snapshot.time-retained``: epoch
                milliseconds, a datetime or ISO text.
            max_deletes: in place of ``snapshot.expire.limit``.

        Raises:
            OptionError: ``retain_min`` above ``retain_max``, or one below 1.
        """
        schema = self._schemas.latest()
        return expire_snapshots(
            self._store, schema, retain_max, retain_min, older_than, max_deletes
        )

    def remove_orphan_files(
        self,
        older_than: Timestamp | None = None,
        dry_run: bool = False,
        progress: Callable[[int], None] = lambda _: None,
    ) -> pa.Table:
        """Delete files that nothing of the table names, such as killed writers leave.

        Args:
            older_than: younger files stay: epoch milliseconds, a datetime or ISO text. Default
                a day ago; with less, a commit that is under way may lose its files.
            dry_run: delete nothing.
            progress: called with the number of files looked at so far.

        Returns:
            ``path``, ``size`` and ``modified`` of each.
        """
        schema = self._schemas.latest()
        return remove_orphan_files(self._store, schema, older_than, dry_run, progress)

    def rescale(
        self,
        buckets: int,
        partitions: Sequence[Mapping[str, object]] | None = None,
        progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> None:
        """Spread the rows of a table with fixed buckets over another number of them.

        Safe beside writers and readers, and to be run again when it was killed. Writers that are
        open get SchemaChangedError: load the table again and write again.

        Args:
            buckets: of each partition.
            partitions: rewrite these alone now, ``[{"dt": "a"}]``, whole or in part. The others
                are read as before, and refuse rows until they are rescaled too.
            progress: called with the partitions done, and to do.

        Raises:
            OptionError: the table has dynamic buckets, or ``buckets`` is below 1.
            CommitConflictError: other processes kept changing a partition: run it again.
        """
        self._use(self._partitions().rescale(self.name, buckets, partitions, progress))

    def drop_partitions(self, partitions: Sequence[Mapping[str, object]]) -> Snapshot | None:
        """Remove all committed rows of partitions: ``[{"dt": "a"}]``, whole or in part.

        Raises:
            InputError: a column that is no partition column, or a value that does not fit it.
            OptionError: no partition is named.
        """
        return self._partitions().drop(partitions)

    def overwrite(
        self, data: object, partition: Mapping[str, object] | None = None
    ) -> Snapshot | None:
        """Replace committed rows by new ones, in one snapshot.

        Args:
            data: pa.Table, RecordBatch, pandas DataFrame or a list of dicts.
            partition: what is replaced, whole or in part; ``{}`` is the whole table. Default the
                partitions that have new rows, or the whole table where it has no partitions or
                sets ``dynamic-partition-overwrite`` to false.

        Returns:
            The snapshot; None where there was nothing to replace.

        Raises:
            InputError: the rows do not fit the table or the partition; nothing was written.
        """
        return self._partitions().overwrite(data, partition)

    def expire_partitions(self) -> pa.Table:
        """Drop the partitions that are older than ``partition.expiration-time``; their values.

        Raises:
            OptionError: the table does not set it.
        """
        return self._partitions().expire()

    def compact_dedicated(
        self,
        full: bool = False,
        partitions: Sequence[Mapping[str, object]] | None = None,
        buckets: Sequence[int] | None = None,
        parallelism: int | None = None,
        progress: Progress | None = None,
    ) -> CompactionReport:
        """Compact by a job of its own, beside writers of any process: for write-only tables.

        Args:
            full, partitions, buckets: as `compact` takes them.
            parallelism: buckets at a time (threads, or Ray tasks); default one a processor.
            progress: told the buckets done and how many there are.

        Raises:
            PkrayError: a bucket failed; the others were committed.
        """
        self.schema.core.require_supported()
        chosen = choose(self._store, self.schema, full, partitions, buckets)
        job = DedicatedCompaction(self.location, self.runtime.spread, now_millis)
        return job.run(chosen, parallelism, progress)

    def service_stats(self) -> dict[str, list[dict[str, object]]]:
        """What the coordinator and the owners of the running service say of themselves."""
        service = self._service()
        owners = [owner.call("stats") for owner in service.owners]
        return {"coordinator": [service.coordinator.call("stats")], "owners": owners}

    def what_writers_wait_for(self) -> str | None:
        """Of the running service, for people; None where nothing is waited for."""
        stats: list[dict[str, Any]] = self.service_stats()["owners"]
        waiting = sum(owner["compaction"]["writers_waiting"] for owner in stats)
        return f"waits for the compaction of {waiting} buckets" if waiting else None

    def _use(self, schema: TableSchema) -> None:
        self.schema = schema
        self._planner = ScanPlanner(self.location, self._store, schema)
        self._client: tuple[TableService, LookupClient] | None = None

    def _lookup_view(
        self,
        visibility: Visibility,
        snapshot_id: int | None,
        tag: str | None,
        timestamp: Timestamp | None,
        watermark: int | None,
    ) -> SnapshotView | None:
        """The moment that a lookup names; None if it names none."""
        if visibility not in ("latest", "committed"):
            raise OptionError(
                f"visibility {visibility!r} is unknown: use 'latest' or 'committed'",
                value=visibility,
            )
        said = (snapshot_id, tag, timestamp, watermark)
        if all(each is None for each in said):
            return None
        if visibility == "latest":
            raise OptionError(
                "snapshot_id, tag, timestamp and watermark go with visibility='committed' only",
                snapshot_id=snapshot_id,
            )
        return self.view(*said)

    def _lookup_client(self, schema: TableSchema) -> LookupClient:
        service = self._service()
        if schema is not self.schema:
            return LookupClient(schema, service.owners)
        if self._client is None or self._client[0] is not service:
            self._client = service, LookupClient(self.schema, service.owners)
        return self._client[1]

    def _partitions(self) -> PartitionWork:
        schema = self._schemas.latest()
        schema.core.require_supported()
        return PartitionWork(self._store, schema, lambda: self._service().coordinator, now_millis)

    def _reads_changes(self, *moment: object) -> bool:
        """Whether the table's ``incremental-between`` says what is read, and no argument does."""
        return all(each is None for each in moment) and names_changes(self.schema.core)

    def _changes(self) -> Changes:
        return Changes(self.location, self._store, self.schema)

    def _service(self) -> TableService:
        return self.runtime.service(self.location, self.schema)


def _known(columns: Sequence[str] | None, schema: TableSchema) -> Sequence[str] | None:
    for column in columns or ():
        schema.field(column)
    return columns
