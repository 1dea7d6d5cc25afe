"""A table: reads, lookups, writers, maintenance; it knows nothing of queries."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self, TypeVar

import pyarrow as pa

from pkray.arguments.facade import (
    BucketList,
    ColumnNames,
    Label,
    Name,
    NameOfSystemTable,
    PartitionList,
    Seconds,
    SnapshotId,
    checked_class,
)
from pkray.arguments.whole_number import whole_number
from pkray.changelog.between import BetweenMode
from pkray.changelog.changes import StreamArguments
from pkray.changelog.start import StartMode
from pkray.changelog.stream import ChangeStream
from pkray.clock import now_millis
from pkray.drawings import svg_levels
from pkray.errors import OptionError, PkrayError
from pkray.expiration.expiry import SnapshotExpirer
from pkray.expiration.expiry_report import ExpiryReport
from pkray.expiration.retention import asked_retention
from pkray.expiration.rollback import Rollback, RollbackReport
from pkray.extras import require_extra
from pkray.format.snapshot import Snapshot
from pkray.metadata.commit_name import checked_identifier, checked_user
from pkray.metadata.schemas import SchemaStore
from pkray.rows.input import Missing
from pkray.scan.moment import Moment, Timestamp, epoch_millis
from pkray.scan.report import ScanReport
from pkray.scan.split import Split
from pkray.scan.view import SnapshotView
from pkray.schema.table_schema import TableSchema
from pkray.service.client.push_session import PushSession
from pkray.service.client.table_service import TableService
from pkray.service.client.writer import TableWriter
from pkray.service.dedicated_compaction import CompactionReport, DedicatedCompaction, Progress
from pkray.service.protocol import Visibility
from pkray.service.runtime import Runtime
from pkray.shown import html_table, html_values
from pkray.storage.location import TableLocation
from pkray.storage.secrets import shown_url
from pkray.table.levels import levels_of
from pkray.table.lookups import Lookups
from pkray.table.maintenance.alter import Alter
from pkray.table.maintenance.branches import Branches
from pkray.table.maintenance.consumers import Consumers
from pkray.table.maintenance.orphans import remove_orphan_files
from pkray.table.maintenance.partitions import PartitionWork, select_buckets
from pkray.table.maintenance.tags import Tags
from pkray.table.reads import Reads

_Alter = TypeVar("_Alter", bound=Alter)


@checked_class
class Table:
    """A keyed table; made by `Catalog.create_table` and `Catalog.load_table`."""

    def __init__(self, location: TableLocation, schema: TableSchema, runtime: Runtime) -> None:
        self.location = location
        self.runtime = runtime
        self._reads = Reads(location, schema)
        self._lookups = Lookups(self._reads, runtime)
        self._store = self._reads.store

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {shown_url(self.location.url)!r})"

    def _repr_html_(self) -> str:
        rows = [
            (each.name, each.type, self._part(each.name), each.description)
            for each in self.schema.fields
        ]
        said = [html_table(repr(self), rows, ("column", "type", "part of", "comment"))]
        if self.comment:
            said.append(html_values("comment", {"": self.comment}))
        return "".join([*said, html_values("options", self.options), self._drawn_levels()])

    def _drawn_levels(self) -> str:
        try:
            levels = levels_of(self.files())
        except PkrayError:  # what cannot be read is drawn as nothing
            return ""
        names = {
            f"bucket {bucket}{f' of {partition}' * (partition != '{}')}": each
            for (partition, bucket), each in levels.items()
        }
        return svg_levels(names) if names else ""

    @property
    def name(self) -> str:
        """``database.table``."""
        return self.location.name

    @property
    def schema(self) -> TableSchema:
        """The columns, keys and options, as they were when this object last looked."""
        return self._reads.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as reads yield them."""
        return self.schema.arrow_schema

    @property
    def primary_keys(self) -> tuple[str, ...]:
        """The key's columns, partition columns among them, in declared order."""
        return self.schema.primary_keys

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The columns that make folders; empty without partitions."""
        return self.schema.partition_keys

    @property
    def comment(self) -> str | None:
        """The table's comment, as its maker wrote it."""
        return self.schema.comment

    @property
    def options(self) -> dict[str, str]:
        """The options that were set."""
        return dict(self.schema.options)

    def at(
        self,
        snapshot_id: SnapshotId | None = None,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> SnapshotView:
        """Find the table at one moment, with the columns that it had then, to be read.

        ``table.at(tag="v1").count()``, for one. By default the moment that its ``scan.*`` options
        name, or else now.

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
            TableNotFoundError: the table was dropped.
            TableReplacedError: and another one was created in its place.
        """
        return self._reads.at(Moment.from_arguments(snapshot_id, tag, timestamp, watermark))

    view = at  # its older name

    def to_arrow(
        self,
        columns: ColumnNames | None = None,
        filter: object = None,
        snapshot_id: SnapshotId | None = None,
        *,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> pa.Table:
        """Read the committed rows, merged; with ``incremental-between`` those that changed.

        Args:
            columns: what to read; default every column.
            filter: SQL text such as ``"amount > 10 AND id IN (1, 2)"``, pyarrow-style lists of
                tuples, or a pyarrow expression.
            snapshot_id, tag, timestamp, watermark: a moment as of `at`.

        Raises:
            InputError: a column the table does not have, or a filter that is not understood.
            SnapshotNotFoundError: the snapshot has expired or was never made.
        """
        moment = Moment.from_arguments(snapshot_id, tag, timestamp, watermark)
        return self._reads.to_arrow(moment, columns, filter)

    def to_batches(
        self,
        columns: ColumnNames | None = None,
        filter: object = None,
        snapshot_id: SnapshotId | None = None,
        *,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read as `to_arrow`, batch by batch in bounded memory."""
        moment = Moment.from_arguments(snapshot_id, tag, timestamp, watermark)
        return self._reads.to_batches(moment, columns, filter)

    def to_pandas(
        self,
        columns: ColumnNames | None = None,
        filter: object = None,
        snapshot_id: SnapshotId | None = None,
        *,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> Any:
        """Read as `to_arrow`, as a pandas DataFrame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        require_extra("pandas", "pandas", "to_pandas()")
        found = self.to_arrow(
            columns, filter, snapshot_id, tag=tag, timestamp=timestamp, watermark=watermark
        )
        return found.to_pandas()

    def splits(
        self,
        columns: ColumnNames | None = None,
        filter: object = None,
        snapshot_id: SnapshotId | None = None,
        *,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> list[Split]:
        """Cut the read into parts for other processes: each pickles and has ``read()``."""
        return self.at(snapshot_id, tag, timestamp, watermark).plan(columns, filter)

    def explain(
        self,
        columns: ColumnNames | None = None,
        filter: object = None,
        snapshot_id: SnapshotId | None = None,
        *,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> ScanReport:
        """Say what `to_arrow` would read of the table: print it, or take its counts."""
        return self.at(snapshot_id, tag, timestamp, watermark).explain(columns, filter)

    def latest_snapshot(self) -> Snapshot | None:
        """Read the newest snapshot; None before the first commit."""
        return self._reads.snapshots.latest()

    def snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        """Read one snapshot.

        Raises:
            SnapshotNotFoundError: it has expired or was never made.
        """
        return self._reads.snapshots.read(snapshot_id, fresh=True)

    def snapshots(self) -> pa.Table:
        """List the snapshots that are kept, oldest first, a row each."""
        return self.system("snapshots")

    def files(self, snapshot_id: SnapshotId | None = None) -> pa.Table:
        """List the live data files of a snapshot, a row each."""
        return self.system("files", snapshot_id)

    def system(
        self,
        name: NameOfSystemTable,
        snapshot_id: SnapshotId | None = None,
        *,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
    ) -> pa.Table:
        """Read a system table, by Paimon's names: ``snapshots``, ``schemas``, ``options``,
        ``manifests``, ``files``, ``partitions``, ``buckets``, ``table_indexes``, ``tags``,
        ``branches``, ``consumers``, ``aggregation_fields``, ``statistics``, ``audit_log``,
        ``binlog``, ``ro``; and ``compactions``, what each compaction merged and made of it.

        Args:
            snapshot_id, tag, timestamp: of what shows the contents of one snapshot; default the
                newest. As of `to_arrow`.

        Raises:
            TableNotFoundError: there is no such system table.
            SnapshotNotFoundError: the snapshot has expired or was never made.
        """
        return self.open_system(name, snapshot_id, tag=tag, timestamp=timestamp).read_all()

    def open_system(
        self,
        name: NameOfSystemTable,
        snapshot_id: SnapshotId | None = None,
        *,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
    ) -> pa.RecordBatchReader:
        """Read as `system`, batch by batch."""
        return self._reads.open_system(name, snapshot_id, tag=tag, timestamp=timestamp)

    def changelog(
        self,
        from_snapshot: SnapshotId | None = None,
        to_snapshot: SnapshotId | None = None,
        *,
        from_tag: Name | None = None,
        to_tag: Name | None = None,
        from_timestamp: Timestamp | None = None,
        to_timestamp: Timestamp | None = None,
        normalize: bool = False,
    ) -> pa.Table:
        """Read what changed, snapshot by snapshot.

        The producers ``lookup`` and ``full-compaction`` tell of changes in the COMPACT snapshot
        that found them, after the APPEND snapshot that brought the rows. Without a producer changes
        are the rows that writers added, merged by key within a commit; ``normalize`` finds what
        became of each row. Overwrites are left out, unless the table sets
        ``streaming-read-overwrite`` or ``normalize`` is given. A key that moves to another
        partition is a '-D' in its old one and a '+I' in its new one, in any order: apply such
        changes by key and partition.

        Args:
            from_snapshot, from_tag: the first snapshot, included. Default the earliest whose
                changes are there.
            to_snapshot, to_tag: the last snapshot, included. Default the newest.
            from_timestamp, to_timestamp: the first snapshot of that time or later, the last one
                of that time or before; as of `at`.
            normalize: as of `stream`.

        Returns:
            ``_row_kind`` ('+I', '-U', '+U', '-D'), ``_snapshot_id``, then the table's columns.

        Raises:
            SnapshotNotFoundError: some of these changes have expired or are to come; says which
                are there.
            OptionError: one end is named twice, or the last is before the first.
        """
        reader = self._reads.changes().reader(normalize)
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
        from_snapshot: SnapshotId | None = None,
        to_snapshot: SnapshotId | None = None,
        *,
        from_tag: Name | None = None,
        to_tag: Name | None = None,
        from_timestamp: Timestamp | None = None,
        to_timestamp: Timestamp | None = None,
        normalize: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Read as `changelog`, batch by batch in bounded memory."""
        return (
            self._reads.changes()
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
        columns: ColumnNames | None = None,
        filter: object = None,
    ) -> pa.Table:
        """Read what changed between two snapshots, in sum: the last change of each key.

        Args:
            start, end: snapshot ids or tags; what changed after ``start``, up to ``end``. 0 is
                before the first snapshot. Default what the table's ``incremental-between`` or
                ``incremental-between-timestamp`` says.
            start_timestamp, end_timestamp: or times, as of `at`.
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
            self._reads.changes()
            .between(start, end, start_timestamp, end_timestamp, mode, columns, filter)
            .read_all()
        )

    def stream(
        self,
        consumer_id: Label | None = None,
        mode: StartMode | None = None,
        from_snapshot: SnapshotId | None = None,
        from_timestamp: Timestamp | None = None,
        poll_interval: Seconds | None = None,
        until_snapshot: SnapshotId | None = None,
        *,
        until_watermark: int | None = None,
        normalize: bool = False,
        columns: ColumnNames | None = None,
        filter: object = None,
        consumer_mode: str | None = None,
        ignore_progress: bool | None = None,
    ) -> ChangeStream:
        """Follow the table's changes as they come: iterate over the stream, and close it.

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
        asked = StreamArguments(
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
        return self._reads.changes().stream(asked)

    def lookup(
        self,
        keys: object,
        *,
        columns: ColumnNames | None = None,
        visibility: Visibility = "latest",
        snapshot_id: SnapshotId | None = None,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
        max_staleness: Seconds = 0.0,
    ) -> pa.Table:
        """Look rows up by primary key, in the order asked; absent keys are left out.

        Args:
            keys: the primary key columns: pa.Table, RecordBatch, pandas or a list of dicts.
            columns: what to return; default every column.
            visibility: ``latest`` also sees rows that are written but not committed;
                ``committed`` sees a snapshot.
            snapshot_id, tag, timestamp, watermark: with ``committed``, a moment as of `at`,
                instead of the newest snapshot.
            max_staleness: seconds that the owners' last look for commits of other processes may be
                old; meanwhile the store is not asked for newer ones. Commits of this catalog and
                its service are seen at once. Default 0: they look for each lookup. With dynamic
                buckets they look all the same.

        Raises:
            InputError: the keys do not fit the table, or a column that it has not, or named twice.
            OptionError: ``visibility`` is another word, a moment goes with ``latest`` or with
                ``max_staleness``, or that is negative.
        """
        moment = Moment.from_arguments(snapshot_id, tag, timestamp, watermark)
        return self._lookups.rows(visibility, moment, max_staleness).find(keys, columns)

    def lookup_prefix(
        self,
        keys: object,
        *,
        columns: ColumnNames | None = None,
        visibility: Visibility = "latest",
        snapshot_id: SnapshotId | None = None,
        tag: Name | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
        max_staleness: Seconds = 0.0,
    ) -> pa.Table:
        """Look up all rows whose primary key begins with given values: in the order asked, and the
        rows of each in key order.

        One bucket is asked where the values have the ``bucket-key``, else each of the partition.

        Args:
            keys: the first columns of the primary key (less the partition columns), with all
                partition columns or none, which means every partition; as `lookup` takes keys.
                Text columns match as a whole.
            columns, visibility, snapshot_id, tag, timestamp, watermark, max_staleness: as of
                `lookup`.

        Raises:
            InputError, OptionError: as `lookup`.
        """
        moment = Moment.from_arguments(snapshot_id, tag, timestamp, watermark)
        return self._lookups.rows(visibility, moment, max_staleness).find_prefixes(keys, columns)

    @property
    def alter(self) -> Alter:
        """Changes of the columns, options and comments: ``table.alter.add_column("x", "INT")``."""
        return self._open_alter(Alter)

    def _open_alter(self, kind: type[_Alter]) -> _Alter:
        self._check_same_table()
        return kind(self._store, self.name, self._reads.use)

    def open_writer(
        self,
        commit_user: Label | None = None,
        *,
        missing: Missing = "error",
        merge_schema: bool = False,
    ) -> TableWriter:
        """Open a writer; use it in a ``with`` block.

        It takes over from writers of its commit user that are still open, in this process or
        another: they commit nothing any more but what they are publishing at this moment, and
        get CommitFencedError.

        Args:
            commit_user: names the writer over restarts: its commits happen once. Default a new
                name, which starts with ``commit.user-prefix``.
            missing: ``null`` writes nulls where rows lack a nullable column of the table;
                ``error`` refuses such rows, but for columns with a default value and for
                partial-update tables.
            merge_schema: add the columns to the table that rows have and it lacks, nullable.
                Between two commits all rows have the new columns, or none.
        """
        self.schema.core.require_supported()
        service, alone = self._service(), commit_user is None
        if commit_user is None:
            commit_user = f"{self.schema.core.commit_user_prefix or 'pkray'}-{uuid.uuid4()}"
        return TableWriter(
            self.schema,
            service,
            checked_user(commit_user),
            missing=missing,
            grow=self.alter.merge_schema if merge_schema else None,
            alone=alone,
        )

    def upsert(
        self,
        data: object,
        *,
        commit_user: Label | None = None,
        commit_identifier: int | None = None,
        missing: Missing = "error",
        merge_schema: bool = False,
    ) -> Snapshot | None:
        """Insert rows, or replace those of the same key, in one commit.

        Args:
            data: pa.Table, RecordBatch, pandas DataFrame or a list of dicts.
            commit_user, missing, merge_schema: as `open_writer` takes them.
            commit_identifier: as `TableWriter.commit` takes it.

        Returns:
            The snapshot.

        Raises:
            InputError: the rows do not fit the table; nothing was written.
        """
        with self.open_writer(commit_user, missing=missing, merge_schema=merge_schema) as writer:
            writer.upsert(data)
            return writer.commit(commit_identifier)

    def delete(
        self,
        keys: object = None,
        *,
        where: object = None,
        commit_user: Label | None = None,
        commit_identifier: int | None = None,
    ) -> Snapshot | None:
        """Delete rows in one commit, by key or by a filter.

        Args:
            keys: as `TableWriter.delete` takes them.
            where: or a filter as `to_arrow` takes it: the keys of the rows that it finds in the
                newest snapshot are deleted, whatever others write to these rows meanwhile.
            commit_user: as `open_writer` takes it.
            commit_identifier: as `TableWriter.commit` takes it.

        Returns:
            The snapshot; None where the filter finds no row.

        Raises:
            OptionError: neither or both of ``keys`` and ``where``.
            InputError: the keys or the filter do not fit the table; nothing was deleted.
        """
        if (keys is None) == (where is None):
            raise OptionError(
                "delete takes keys, such as [{'id': 1}], or a filter, such as "
                f'where="amount < 0": {"neither" if keys is None else "both"} was given',
                arguments=("keys", "where"),
            )
        with self.open_writer(commit_user) as writer:
            if where is None:
                writer.delete(keys)
                return writer.commit(commit_identifier)
            schema, found = self.schema, 0
            columns = dict.fromkeys([*schema.primary_keys, *schema.core.sequence_field])
            for batch in self.to_batches(list(columns), where):
                found += batch.num_rows
                writer.delete(batch)
            return writer.commit(commit_identifier) if found else None

    def open_push(self, commit_user: Label, commit_identifier: int) -> PushSession:
        """Open a distributed push: tasks send rows straight to the owners, then it is committed.

        It takes over from others of its commit user, as `open_writer` does.

        For what distributes work itself; `pkray.spark.ingest` does this for DataFrames. ::

            session = orders.open_push("nightly", 7)
            if not session.is_committed:
                target = session.target()               # send it to the tasks: it pickles
                reports = []
                for number, part in enumerate(parts):   # each task, wherever it runs
                    pusher = target.open(source=number, attempt=0)
                    pusher.push(part)                   # a pyarrow Table, a list of dicts …
                    reports.append(pusher.finish())     # send it back
                session.commit(reports)                 # what is not reported does not count

        A task that runs again opens with the same source and another attempt.

        Args:
            commit_user, commit_identifier: the commit's name; see ``is_committed``.

        Raises:
            OptionError: a commit user that is no text, or an identifier that is no whole number.
        """
        return self._open_push(commit_user, commit_identifier)

    def _open_push(
        self, commit_user: str, commit_identifier: int, alone: bool = False
    ) -> PushSession:
        """Open a push whose commit user may be nobody else's: ``alone``."""
        self.schema.core.require_supported()
        user, identifier = checked_user(commit_user), checked_identifier(commit_identifier)
        return PushSession.open(self._service(), self.schema, user, identifier, alone)

    def compact(
        self,
        full: bool = True,
        partitions: PartitionList | None = None,
        buckets: BucketList | None = None,
    ) -> Snapshot | None:
        """Compact what is committed, concurrently with writing; returns when that is committed.

        Args:
            full: into one sorted run a bucket; otherwise where the sorted runs are due for it.
            partitions: these only, such as ``[{"dt": "a"}]``; a mapping may leave columns out.
            buckets: these only, of each partition.

        Returns:
            The COMPACT snapshot, or None when there was nothing to compact.
        """
        selection = select_buckets(self._store, self.schema, full, partitions, buckets)
        return self._service().coordinator.compact(selection).snapshot

    @property
    def tags(self) -> Tags:
        """Snapshots with names, which do not expire: ``table.tags.create("v1")``."""
        self._check_same_table()
        return Tags(self.location, self._store, self.schema, now_millis)

    @property
    def branches(self) -> Branches:
        """Histories of their own next to the table's: ``table.branches.create("b", tag="v1")``."""
        self._check_same_table()
        forget = self._reads.forget_schemas
        return Branches(self.location, self._store, self.schema, self.runtime.stop, forget)

    def branch(self, name: Name) -> Self:
        """Open a branch of the table, to be read and written as a table; ``main`` is the table
        itself.

        Raises:
            BranchNotFoundError: there is none.
        """
        location = self.branches.locate(name)
        schema = SchemaStore(location.open(), location.name).latest()
        return type(self)(location, schema, self.runtime)

    def rollback_to(
        self, snapshot_id: SnapshotId | None = None, tag: Name | None = None, *, force: bool = False
    ) -> RollbackReport:
        """Make an older snapshot the newest: later snapshots and tags are removed, and the files
        that only they named. Rows that are written but not committed stay.

        Args:
            snapshot_id: the snapshot to go back to.
            tag: or the tag, even if its snapshot has expired.
            force: even if something that is built on the table, such as a continuous query, uses
                it.

        Raises:
            OptionError: none of them or both.
            TableInUseError: something uses it, and `force` is false.
            SnapshotNotFoundError: the snapshot has expired or was never made.
            TagNotFoundError: there is no such tag.
        """
        if not force:
            self._check_unused()
        return Rollback(self._store, self._newest_schema()).to(snapshot_id, tag)

    def _check_unused(self) -> None:
        """Check that nothing that is built on it uses it; what is built on it says so."""

    @property
    def consumers(self) -> Consumers:
        """Readers of the changes that keep their place: ``table.consumers.reset("job", 7)``."""
        self._check_same_table()
        return Consumers(self._store)

    def expire_snapshots(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: Timestamp | None = None,
        max_deletes: int | None = None,
        dry_run: bool = False,
    ) -> ExpiryReport:
        """Expire old snapshots and the files only they name, as also happens after commits.

        Tags and what consumers have still to read stay.

        Args:
            retain_max, retain_min: in place of ``snapshot.num-retained.max`` and ``.min``.
            older_than: younger ones stay, in place of ``snapshot.time-retained``: epoch
                milliseconds, a datetime or ISO text.
            max_deletes: in place of ``snapshot.expire.limit``.
            dry_run: only say what would go; without changelogs of snapshots that this expiry would
                keep and remove at once.

        Raises:
            OptionError: ``retain_min`` above ``retain_max``, or one below 1.
        """
        schema, now = self._newest_schema(), now_millis()
        age = None if older_than is None else now - epoch_millis(older_than)
        retention = asked_retention(schema.core, retain_max, retain_min, age, max_deletes)
        return SnapshotExpirer(self._store, schema, lambda: now, dry_run=dry_run).expire(retention)

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
        schema = self._newest_schema()
        return remove_orphan_files(self._store, schema, older_than, dry_run, progress)

    def rescale(
        self,
        buckets: int,
        partitions: PartitionList | None = None,
        progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> None:
        """Spread the rows of a table with fixed buckets over another number of them.

        Safe while others write and read, and to be run again when it was killed. Writers that are
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
        work = self._partition_work()
        self._reads.use(work.rescale(self.name, buckets, partitions, progress))

    def drop_partitions(self, partitions: PartitionList) -> Snapshot | None:
        """Remove all committed rows of partitions: ``[{"dt": "a"}]``, whole or in part.

        Raises:
            InputError: a column that is no partition column, or a value that does not fit it.
            OptionError: no partition is named.
        """
        return self._partition_work().drop(partitions)

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
        return self._partition_work().overwrite(data, partition)

    def expire_partitions(self) -> pa.Table:
        """Drop the partitions that are older than ``partition.expiration-time``; their values.

        Raises:
            OptionError: the table does not set it.
        """
        return self._partition_work().expire()

    def compact_dedicated(
        self,
        full: bool = False,
        partitions: PartitionList | None = None,
        buckets: BucketList | None = None,
        parallelism: int | None = None,
        progress: Progress | None = None,
    ) -> CompactionReport:
        """Compact by a job of its own, while writers of any process go on: for write-only tables.

        Args:
            full, partitions, buckets: as `compact` takes them.
            parallelism: buckets at a time (threads, or Ray tasks); default one a processor.
            progress: told the buckets done and how many there are.

        Raises:
            OptionError: ``parallelism`` is no whole number of at least 1.
            PkrayError: a bucket failed; the others were committed.
        """
        self._check_same_table()
        self.schema.core.require_supported()
        if parallelism is not None:
            whole_number("parallelism", parallelism, 1, "buckets at a time")
        job = DedicatedCompaction(self.location, self.runtime.spread, now_millis)
        selection = select_buckets(self._store, self.schema, full, partitions, buckets)
        return job.run(selection, parallelism, progress)

    def service_stats(self) -> dict[str, list[dict[str, object]]]:
        """Show what the coordinator and the owners of the running service say of themselves."""
        return self._service().stats()

    def write_stall_reason(self) -> str | None:
        """Say why writers of the running service wait, for people; None where they do not."""
        return self._service().write_stall_reason()

    def _service(self) -> TableService:
        """Find the table's service, started where it does not run."""
        return self.runtime.service(self.location, self.schema)

    def _partition_work(self) -> PartitionWork:
        schema = self._newest_schema()
        schema.core.require_supported()
        return PartitionWork(self._store, schema, lambda: self._service().coordinator, now_millis)

    def _replace_all(
        self,
        rows: Callable[[], Iterable[pa.RecordBatch]],
        named: tuple[str, int],
        read_at: int,
        properties: dict[str, str],
    ) -> Snapshot | None:
        """As `PartitionWork.replace_all`; for what computes the whole content of a table."""
        return self._partition_work().replace_all(rows, named, read_at, properties)

    def _before(self, snapshot: Snapshot) -> Snapshot:
        """Read the snapshot before one that `at` has just found to be there; from memory, if it was
        there then too. Raises `SnapshotNotFoundError`."""
        return self._reads.snapshots.read(snapshot.id - 1)

    def _newest_schema(self) -> TableSchema:
        self._check_same_table()
        return self._reads.schemas.latest()

    def _check_same_table(self) -> None:
        self._reads.identity.check_same_table()

    def _part(self, column: str) -> str | None:
        """Say of what a column is a part, for people."""
        keys = {"primary key": self.primary_keys, "partition": self.partition_keys}
        return ", ".join(what for what, names in keys.items() if column in names) or None
