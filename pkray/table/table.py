"""A table, as its users hold it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from pkray.arguments.facade import BucketList, Label, Name, PartitionList, SnapshotId, checked_class
from pkray.arguments.whole_number import whole_number
from pkray.clock import now_millis
from pkray.errors import OptionError
from pkray.expiration.expiry_report import ExpiryReport
from pkray.expiration.rollback import RollbackReport
from pkray.format.snapshot import Snapshot
from pkray.metadata.commit_name import checked_identifier, checked_user
from pkray.metadata.schemas import SchemaStore
from pkray.rows.input import Missing
from pkray.scan.snapshot_selector import Timestamp
from pkray.service.client.push_session import PushSession
from pkray.service.client.writer import TableWriter
from pkray.service.compaction.bucket_selection import choose
from pkray.service.dedicated_compaction import CompactionReport, DedicatedCompaction, Progress
from pkray.service.protocol import CommitOutcome
from pkray.table.lookup_table import LookupTable
from pkray.table.maintenance.alter import Alter
from pkray.table.maintenance.branches import Branches
from pkray.table.maintenance.consumers import Consumers
from pkray.table.maintenance.expiry import expire_snapshots
from pkray.table.maintenance.orphans import remove_orphan_files
from pkray.table.maintenance.partitions import PartitionWork
from pkray.table.maintenance.rollback import roll_back
from pkray.table.maintenance.tags import Tags


@checked_class
class Table(LookupTable):
    """A keyed table; made by `Catalog.create_table` and `Catalog.load_table`."""

    @property
    def alter(self) -> Alter:
        """Changes of the columns, options and comments: ``table.alter.add_column("x", "INT")``."""
        self._identity.check_same_table()
        return Alter(self._store, self.name, self._use)

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
        service = self._service()
        alone = commit_user is None
        if commit_user is None:
            commit_user = f"{self.schema.core.commit_user_prefix or 'pkray'}-{uuid.uuid4()}"
        return TableWriter(
            self.schema,
            service.coordinator,
            service.owners,
            checked_user(commit_user),
            keep=service.keep,
            fetch=service.fetch,
            writers=service.writers,
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
            columns = dict.fromkeys([*self.schema.primary_keys, *self.schema.core.sequence_field])
            found = 0
            for batch in self.to_batches(list(columns), where):
                found += batch.num_rows
                writer.delete(batch)
            return writer.commit(commit_identifier) if found else None

    def open_push(self, commit_user: Label, commit_identifier: int) -> PushSession:
        """A distributed push: tasks send rows straight to the owners, then it is committed.

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
        """As `open_push`.

        Args:
            alone: nobody else has the commit user.
        """
        self.schema.core.require_supported()
        commit_user = checked_user(commit_user)
        commit_identifier = checked_identifier(commit_identifier)
        service = self._service()
        coordinator = service.coordinator
        known: CommitOutcome | None = coordinator.call("committed", commit_user, commit_identifier)
        session = coordinator.call("begin", commit_user, alone)
        target = service.push_target(session, self.schema)
        return PushSession(
            coordinator,
            service.owners,
            session,
            commit_identifier,
            target,
            known,
            service.writers.beat_seconds,
        )

    def compact(
        self,
        full: bool = True,
        partitions: PartitionList | None = None,
        buckets: BucketList | None = None,
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
        self._identity.check_same_table()
        return Tags(self.location, self._store, self.schema, now_millis)

    @property
    def branches(self) -> Branches:
        """Histories of their own beside the table's: ``table.branches.create("b", tag="v1")``."""
        self._identity.check_same_table()
        return Branches(
            self.location, self._store, self.schema, self.runtime.stop, self._forget_schemas
        )

    def branch(self, name: Name) -> Table:
        """A branch of the table, to be read and written as a table; ``main`` is the table itself.

        Raises:
            BranchNotFoundError: there is none.
        """
        location = self.branches.locate(name)
        schema = SchemaStore(location.open(), location.name).latest()
        return Table(location, schema, self.runtime)

    def rollback_to(
        self, snapshot_id: SnapshotId | None = None, tag: Name | None = None
    ) -> RollbackReport:
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
        self._identity.check_same_table()
        return roll_back(self._store, self._schemas.latest(), snapshot_id, tag)

    @property
    def consumers(self) -> Consumers:
        """Readers of the changes that keep their place: ``table.consumers.reset("job", 7)``."""
        self._identity.check_same_table()
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
        self._identity.check_same_table()
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
        self._identity.check_same_table()
        schema = self._schemas.latest()
        return remove_orphan_files(self._store, schema, older_than, dry_run, progress)

    def rescale(
        self,
        buckets: int,
        partitions: PartitionList | None = None,
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

    def drop_partitions(self, partitions: PartitionList) -> Snapshot | None:
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
        partitions: PartitionList | None = None,
        buckets: BucketList | None = None,
        parallelism: int | None = None,
        progress: Progress | None = None,
    ) -> CompactionReport:
        """Compact by a job of its own, beside writers of any process: for write-only tables.

        Args:
            full, partitions, buckets: as `compact` takes them.
            parallelism: buckets at a time (threads, or Ray tasks); default one a processor.
            progress: told the buckets done and how many there are.

        Raises:
            OptionError: ``parallelism`` is no whole number of at least 1.
            PkrayError: a bucket failed; the others were committed.
        """
        self._identity.check_same_table()
        self.schema.core.require_supported()
        if parallelism is not None:
            whole_number("parallelism", parallelism, 1, "buckets at a time")
        chosen = choose(self._store, self.schema, full, partitions, buckets)
        job = DedicatedCompaction(self.location, self.runtime.spread, now_millis)
        return job.run(chosen, parallelism, progress)

    def service_stats(self) -> dict[str, list[dict[str, object]]]:
        """What the coordinator and the owners of the running service say of themselves."""
        service = self._service()
        owners = [owner.call("stats") for owner in service.owners]
        return {"coordinator": [service.coordinator.call("stats")], "owners": owners}

    def write_stall_reason(self) -> str | None:
        """Of the running service, for people; None where nothing is waited for."""
        stats: list[dict[str, Any]] = self.service_stats()["owners"]
        waiting = sum(owner["compaction"]["writers_waiting"] for owner in stats)
        return f"waits for the compaction of {waiting} buckets" if waiting else None

    def _partitions(self) -> PartitionWork:
        self._identity.check_same_table()
        schema = self._schemas.latest()
        schema.core.require_supported()
        return PartitionWork(self._store, schema, lambda: self._service().coordinator, now_millis)
