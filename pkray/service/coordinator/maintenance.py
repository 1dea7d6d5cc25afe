"""Expire old snapshots, tags and partitions of a table after commits, for its owner."""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property

from pkray.expiration.expiry import SnapshotExpirer
from pkray.expiration.partition_expiry import expired_partitions
from pkray.expiration.tag_removal import TagRemoval
from pkray.metadata.live import live_files
from pkray.metadata.snapshots import SnapshotStore
from pkray.metadata.tags import TagStore
from pkray.schema.table_schema import TableSchema
from pkray.service.progress import BESIDE_CALLS
from pkray.service.timing.elapsed import elapsed
from pkray.storage.branch_store import main_and_history
from pkray.storage.object_store import ObjectStore

_log = logging.getLogger(__name__)

TAGS_EVERY_MILLIS = 60_000
"""Between two looks for tags whose time is over, which list all of them."""


class TableMaintenance:
    """Expires what the table's options expire; whatever fails is tried again another time.

    A ``write-only`` table is left to its dedicated compaction job. Not thread-safe.

    Args:
        store: the table's root, or a branch.
        schema: returns the table's newest schema.
        clock: epoch milliseconds.
        at_once: look for tags and partitions after the first commit, however soon it comes.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: Callable[[], TableSchema],
        clock: Callable[[], int],
        *,
        at_once: bool = False,
    ) -> None:
        self._store = store
        self._schema = schema
        self._clock = clock
        self._expirer = SnapshotExpirer(store, lambda: self._newest, clock)
        _, history = main_and_history(store)
        self._snapshots = SnapshotStore(history)
        self._tags = TagStore(history, clock=clock)
        self._tags_seen = self._partitions_seen = None if at_once else clock()
        self._pool: ThreadPoolExecutor | None = None
        self._running: Future[None] | None = None

    @cached_property
    def _newest(self) -> TableSchema:
        return self._schema()

    def after_commit(self, latest: int) -> list[bytes]:
        """Expire snapshots and tags, at once or, if ``snapshot.expire.execution-mode`` says so,
        concurrently with the next commits.

        Args:
            latest: the newest snapshot's id.

        Returns:
            Partitions to be dropped now; ``partition.expiration-check-interval`` says how often
            they are looked for.

        Raises:
            PkrayError: the schema or the partitions could not be read.
        """
        self._newest = self._schema()
        options = self._newest.core
        if options.write_only:
            return []
        if options.snapshot_expire_execution_mode == "sync":
            self._expire(latest)
        elif self._running is None or self._running.done():
            self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="pkray-expiry")
            self._running = self._pool.submit(self._expire, latest)
        return self._due_partitions(self._newest)

    def _due_partitions(self, schema: TableSchema) -> list[bytes]:
        options, now = schema.core, self._clock()
        if options.partition_expiration_time is None:
            return []
        interval = options.partition_expiration_check_interval
        seen = self._partitions_seen
        if seen is not None and not elapsed(seen, now, interval):
            return []
        self._partitions_seen = now
        return find_expired(self._store, schema, self._snapshots, now)

    def close(self) -> None:
        """Wait for what runs."""
        if self._pool is not None:
            self._pool.shutdown()

    def _expire(self, latest: int) -> None:
        try:
            with BESIDE_CALLS:
                self._expirer.expire(latest=latest)
                now = self._clock()
                if self._tags_seen is None or elapsed(self._tags_seen, now, TAGS_EVERY_MILLIS):
                    self._tags_seen = now
                    TagRemoval(self._store, self._newest, self._tags).expire()
        except Exception as error:  # the commit it follows has happened
            _log.warning("snapshots are not expired: %s; the next commit tries again", error)


def find_expired(
    store: ObjectStore, schema: TableSchema, snapshots: SnapshotStore, now: int
) -> list[bytes]:
    """Find the partitions of the newest snapshot that the table's options expire."""
    latest = snapshots.latest()
    if latest is None:
        return []
    return expired_partitions(schema, live_files(store, latest, schema), now)
