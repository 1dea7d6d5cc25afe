"""Work on a table as a whole: its history, its files, its buckets and partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from pkray.arguments.whole_number import check_snapshot, whole_number
from pkray.clock import now_millis
from pkray.errors import OptionError
from pkray.expiration.expiry import SnapshotExpirer
from pkray.expiration.expiry_report import ExpiryReport
from pkray.expiration.retention import Retention, snapshot_retention
from pkray.expiration.rollback import Rollback, RollbackReport
from pkray.format.snapshot import Snapshot
from pkray.scan.snapshot_selector import Timestamp, epoch_millis
from pkray.schema.table_schema import TableSchema
from pkray.service.client.table_service import TableService
from pkray.service.compaction.bucket_selection import select_buckets
from pkray.service.dedicated_compaction import CompactionReport, DedicatedCompaction, Progress
from pkray.service.protocol import BucketSelection
from pkray.service.runtime import Runtime
from pkray.table.maintenance.branches import Branches
from pkray.table.maintenance.consumers import Consumers
from pkray.table.maintenance.orphans import remove_orphan_files
from pkray.table.maintenance.partitions import PartitionWork
from pkray.table.maintenance.tags import Tags
from pkray.table.reads import Reads

Values = Mapping[str, object]
"""By partition column; columns left out may have any value."""


class Administration:
    """Does what ``Table`` offers for a table as a whole, once it is known to be the same table.

    Args:
        runtime: stops services, and runs work that is spread.
        service: finds the table's service, started where it does not run.
    """

    def __init__(self, reads: Reads, runtime: Runtime, service: Callable[[], TableService]) -> None:
        self._reads = reads
        self._runtime = runtime
        self._service = service

    def tags(self) -> Tags:
        """Open the tags, as ``Table.tags``."""
        self._check_same_table()
        return Tags(self._reads.location, self._reads.store, self._reads.schema, now_millis)

    def branches(self) -> Branches:
        """Open the branches, as ``Table.branches``."""
        self._check_same_table()
        reads = self._reads
        return Branches(
            reads.location, reads.store, reads.schema, self._runtime.stop, reads.forget_schemas
        )

    def consumers(self) -> Consumers:
        """Open the consumers, as ``Table.consumers``."""
        self._check_same_table()
        return Consumers(self._reads.store)

    def roll_back(self, snapshot_id: int | None, tag: str | None) -> RollbackReport:
        """Make an older snapshot the newest, as ``Table.rollback_to``."""
        rollback = Rollback(self._reads.store, self._newest_schema())
        check_snapshot("snapshot_id", snapshot_id)
        if snapshot_id is not None and tag is None:
            return rollback.to_snapshot(snapshot_id)
        if tag is not None and snapshot_id is None:
            return rollback.to_tag(tag)
        raise OptionError(
            "a rollback goes back to what snapshot_id or tag names: give one of them",
            snapshot_id=snapshot_id,
            tag=tag,
            arguments=("snapshot_id", "tag"),
        )

    def expire_snapshots(
        self,
        retain_max: int | None,
        retain_min: int | None,
        older_than: Timestamp | None,
        max_deletes: int | None,
    ) -> ExpiryReport:
        """Expire old snapshots, as ``Table.expire_snapshots``."""
        schema = self._newest_schema()
        given = {"retain_max": retain_max, "retain_min": retain_min, "max_deletes": max_deletes}
        for name, value in given.items():
            if value is not None:
                whole_number(name, value, 1)
        now = now_millis()
        asked = snapshot_retention(schema.core)
        most = asked.num_max if retain_max is None else retain_max
        retention = Retention(
            # As little as the user said to keep at most, unless a least number was said too.
            num_min=min(asked.num_min, most) if retain_min is None else retain_min,
            num_max=most,
            time_millis=asked.time_millis if older_than is None else now - epoch_millis(older_than),
            limit=asked.limit if max_deletes is None else max_deletes,
        )
        return SnapshotExpirer(self._reads.store, schema, lambda: now).expire(retention)

    def remove_orphan_files(
        self, older_than: Timestamp | None, dry_run: bool, progress: Callable[[int], None]
    ) -> pa.Table:
        """Delete files that nothing names, as ``Table.remove_orphan_files``."""
        schema = self._newest_schema()
        return remove_orphan_files(self._reads.store, schema, older_than, dry_run, progress)

    def partitions(self) -> PartitionWork:
        """Open the work on whole partitions."""
        schema = self._newest_schema()
        schema.core.require_supported()
        return PartitionWork(
            self._reads.store, schema, lambda: self._service().coordinator, now_millis
        )

    def compact(
        self, full: bool, partitions: Sequence[Values] | None, buckets: Sequence[int] | None
    ) -> Snapshot | None:
        """Compact by the table's service, as ``Table.compact``."""
        selection = self._select(full, partitions, buckets)
        return self._service().coordinator.compact(selection).snapshot

    def compact_dedicated(
        self,
        full: bool,
        partitions: Sequence[Values] | None,
        buckets: Sequence[int] | None,
        parallelism: int | None,
        progress: Progress | None,
    ) -> CompactionReport:
        """Compact by a job of its own, as ``Table.compact_dedicated``."""
        self._check_same_table()
        self._reads.schema.core.require_supported()
        if parallelism is not None:
            whole_number("parallelism", parallelism, 1, "buckets at a time")
        job = DedicatedCompaction(self._reads.location, self._runtime.spread, now_millis)
        return job.run(self._select(full, partitions, buckets), parallelism, progress)

    def _select(
        self, full: bool, partitions: Sequence[Values] | None, buckets: Sequence[int] | None
    ) -> BucketSelection:
        return select_buckets(self._reads.store, self._reads.schema, full, partitions, buckets)

    def _newest_schema(self) -> TableSchema:
        self._check_same_table()
        return self._reads.schemas.latest()

    def _check_same_table(self) -> None:
        self._reads.identity.check_same_table()
