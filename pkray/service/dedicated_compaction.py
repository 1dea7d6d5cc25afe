"""Compacts by a job of its own, while writers of any process go on: no owner has a part in it."""

import logging
import os
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from pkray.commit.message_files import new_data_files
from pkray.errors import PkrayError, ServiceUnavailableError
from pkray.format.commit_message import CommitMessage
from pkray.format.partition_filter import ExactPartitions
from pkray.format.snapshot import Snapshot
from pkray.lsm.compaction.pick import pick_full
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.levels import Levels
from pkray.lsm.record_expiry import files_to_purge
from pkray.lsm.writer.bucket_writer import BucketWriter
from pkray.metadata.live import BucketId
from pkray.metadata.schemas import SchemaStore
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema.table_schema import TableSchema
from pkray.service.call_limits import DEFAULT_LIMITS, CallLimits
from pkray.service.committed_files import CommittedFiles
from pkray.service.compaction.age import CompactionAge
from pkray.service.compaction.job import UNNAMED_MILLIS
from pkray.service.compaction.policy import pick_due
from pkray.service.coordinator.committers import Committers
from pkray.service.coordinator.maintenance import TableMaintenance
from pkray.service.handles.handle import GLANCE_SECONDS
from pkray.service.handles.local_handle import Job
from pkray.service.progress import WorkingThreads
from pkray.service.protocol import BucketSelection
from pkray.service.schema_cache import with_buckets
from pkray.shown import html_values
from pkray.storage.location import TableLocation

_log = logging.getLogger(__name__)

_ROUNDS = 8
"""Plans one after the other, as one compaction may make the next due."""

_COMMIT_MILLIS, _COMMIT_BUCKETS = 10_000, 32
"""What has ended is committed after so long, or so many."""

Progress = Callable[[int, int], None]
"""Told the buckets done, and how many there are."""


class Spread(Protocol):
    """Does work many times, side by side."""

    def __call__(
        self, work: Callable[[Any], Any], arguments: Sequence[Any], parallelism: int | None
    ) -> Iterator[tuple[int, Any]]:
        """Positions of the arguments with what came of them, an error perhaps, as they end."""


@dataclass(frozen=True)
class BucketTask:
    """One bucket to compact; it pickles.

    Args:
        now: epoch milliseconds.
    """

    location: TableLocation
    schema: TableSchema
    bucket: BucketId
    levels: Levels
    full: bool
    now: int

    def run(self) -> CommitMessage:
        """Write what is to take the place of the bucket's files."""
        schema = _not_write_only(self.schema)
        files = DataFileStore(self.location.open(), self.schema, *self.bucket)
        writer = BucketWriter(schema, files, self.levels, clock=lambda: self.now)
        with ExitStack() as undo:
            undo.callback(writer.abort)
            message = writer.prepare_commit(full_compact=self.full)
            undo.pop_all()
        return message


def _not_write_only(schema: TableSchema) -> TableSchema:
    return replace(schema, options={**schema.options, "write-only": "false"})


def run_task(task: BucketTask) -> CommitMessage:
    """Call `BucketTask.run`, for other processes."""
    return task.run()


@dataclass(frozen=True)
class CompactionReport:
    """The outcome of a dedicated compaction.

    Args:
        compacted: buckets whose compaction was committed.
        dropped: compactions in conflict with what others committed.
        snapshot: the newest COMPACT snapshot made, or None.
    """

    compacted: int = 0
    dropped: int = 0
    snapshot: Snapshot | None = None

    def _repr_html_(self) -> str:
        said = {"compacted": self.compacted, "dropped": self.dropped, "snapshot": self.snapshot}
        return html_values("dedicated compaction of buckets", said)


class DedicatedCompaction:
    """Plans the buckets that are due, compacts each as a task, and commits as they end.

    Killed at any point, it leaves files that nothing names, and the next run goes on. It never
    contradicts writers; only where others compacted the same files is its work dropped.

    It ends by expiring snapshots, tags, consumers and partitions as the table's options say, which
    writers of ``write-only`` tables leave to it, as in Paimon.

    Args:
        spread: runs the tasks.
        clock: epoch milliseconds.
    """

    def __init__(self, location: TableLocation, spread: Spread, clock: Callable[[], int]) -> None:
        self._location = location
        self._spread = spread
        self._clock = clock
        self._store = location.open()
        self._schemas = SchemaStore(self._store, location.name)
        self._snapshots = SnapshotStore(self._store)
        user = f"pkray-dedicated-{uuid.uuid4()}"
        self._committers = Committers(location, clock)
        self._committer = self._committers.for_user(user, ignore_empty=True)
        newest = self._committer.committed_identifier()
        self._identifier = 0 if newest is None else newest + 1
        self._age = CompactionAge(self._store, self._schemas.newest, self._snapshots)

    def run(
        self,
        chosen: BucketSelection,
        parallelism: int | None = None,
        progress: Progress | None = None,
    ) -> CompactionReport:
        """Compact until nothing is due, or once where it is to be full.

        Args:
            parallelism: tasks at a time; default one a processor.

        Raises:
            PkrayError: a task failed; the others were committed.
        """
        report = CompactionReport()
        tasks = list(self._plan(chosen))
        for _ in range(_ROUNDS):
            if not tasks:
                break
            report, dropped = self._round(tasks, report, parallelism, progress)
            again = self._plan(chosen) if dropped or not chosen.full else ()
            tasks = [task for task in again if not chosen.full or task.bucket in dropped]
        self._keep_up()
        return report

    def _keep_up(self) -> None:
        """Expire what is old. The compactions are committed: nothing here makes the job fail."""
        try:
            latest = self._snapshots.latest()
            if latest is None:
                return
            maintenance = TableMaintenance(self._store, self._maintained, self._clock, at_once=True)
            old = maintenance.after_commit(latest.id)
            maintenance.close()
            if old:
                committer = self._committers.for_user(f"pkray-expiry-{uuid.uuid4()}")
                committer.overwrite(0, (), ExactPartitions(frozenset(old)))
        except PkrayError as error:
            _log.warning("what is old is not expired: %s; the next job tries again", error)

    def _maintained(self) -> TableSchema:
        return _not_write_only(self._schemas.newest())

    def _plan(self, chosen: BucketSelection) -> Iterator[BucketTask]:
        schema = self._schemas.newest()
        committed = CommittedFiles(
            self._store, schema, self._snapshots, lambda p, b: chosen.has((p, b))
        )
        committed.advance()
        waited = set(self._waited_too_long(schema, committed.snapshot_id))
        for bucket, levels in sorted(committed.buckets.items(), key=lambda each: each[0]):
            full = chosen.full or bucket in waited
            unit = (
                pick_full(levels.runs(), schema.core, self._to_purge(levels, schema))
                if full
                else pick_due(schema, levels)
            )
            if unit is not None:
                under = with_buckets(schema, committed.total_buckets(bucket[0]))
                yield BucketTask(self._location, under, bucket, levels, full, self._clock())

    def _to_purge(self, levels: Levels, schema: TableSchema) -> set[str]:
        return files_to_purge(levels, schema, self._schemas.read, self._clock())

    def _waited_too_long(self, schema: TableSchema, snapshot_id: int) -> list[BucketId]:
        options = schema.core
        counted = options.full_compaction_delta_commits is not None
        if not counted and options.changelog_compaction_interval is None:
            return []
        self._age.advance(snapshot_id)
        overdue = self._age.overdue(self._clock(), committing=False)
        return self._age.dirty if overdue else []

    def _round(
        self,
        tasks: Sequence[BucketTask],
        report: CompactionReport,
        parallelism: int | None,
        progress: Progress | None,
    ) -> tuple[CompactionReport, set[BucketId]]:
        """The report after these tasks, and the buckets whose compaction was dropped."""
        dropped: set[BucketId] = set()
        failure: BaseException | None = None
        ready: list[CommitMessage] = []
        committed_at = self._clock()
        for done, (_, outcome) in enumerate(self._spread(run_task, tasks, parallelism), 1):
            if isinstance(outcome, BaseException):
                failure = failure or outcome
            elif outcome.has_compact:
                ready.append(outcome)
            is_time = self._clock() - committed_at >= _COMMIT_MILLIS
            if ready and (is_time or len(ready) >= _COMMIT_BUCKETS or done == len(tasks)):
                report, lost = self._commit(ready, report)
                dropped |= lost
                ready, committed_at = [], self._clock()
            if progress is not None:
                progress(done, len(tasks))
        if failure is not None:
            raise failure
        return report, dropped

    def _commit(
        self, messages: Sequence[CommitMessage], report: CompactionReport
    ) -> tuple[CompactionReport, set[BucketId]]:
        """The report after this commit, and the buckets that others compacted first."""
        before = self._clock() - UNNAMED_MILLIS
        old = [
            m for m in messages if any((f.creation_time or 0) <= before for f in new_data_files(m))
        ]
        self._committer.check_files_exist(old)
        snapshot = self._committer.commit(self._identifier, messages).compact
        if snapshot is not None:
            self._identifier += 1
            compacted = report.compacted + len(messages)
            return replace(report, compacted=compacted, snapshot=snapshot), set()
        if len(messages) == 1:
            bucket = messages[0].partition, messages[0].bucket
            return replace(report, dropped=report.dropped + 1), {bucket}
        dropped = set()
        for message in messages:
            report, lost = self._commit([message], report)
            dropped |= lost
        return report, dropped


def spread_over_threads(
    work: Callable[[Any], Any],
    arguments: Sequence[Any],
    parallelism: int | None,
    limits: CallLimits = DEFAULT_LIMITS,
) -> Iterator[tuple[int, Any]]:
    """Work as `Spread` over threads of this process; those that hang are left there."""
    waiting = deque(enumerate(arguments))
    running: set[int] = set()
    ended: SimpleQueue[tuple[int, Any]] = SimpleQueue()
    working = WorkingThreads()

    def run(number: int, argument: Any) -> None:
        try:
            with working:
                outcome = work(argument)
        except BaseException as error:
            outcome = error
        ended.put((number, outcome))

    sign, moved = working.sign(), time.monotonic()
    while waiting or running:
        while waiting and len(running) < (parallelism or os.cpu_count() or 1):
            Job(run, waiting[0]).start()
            running.add(waiting.popleft()[0])
        try:
            number, outcome = ended.get(timeout=GLANCE_SECONDS)
        except Empty:
            seen, now = working.sign(), time.monotonic()
            if seen != sign:
                sign, moved = seen, now
            elif now - moved >= limits.call_seconds:
                raise ServiceUnavailableError(
                    f"the compactions in this process showed no progress for "
                    f"{limits.call_seconds:g} s (call_timeout): their storage hangs; try again",
                    callee="compaction",
                ) from None
            continue
        running.remove(number)
        yield number, outcome
