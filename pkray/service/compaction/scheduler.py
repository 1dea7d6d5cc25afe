"""Compacts an owner's buckets concurrently with its writers, and when those wait for it."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable

from pkray.errors import ServiceUnavailableError
from pkray.lsm.compaction.pick import CompactionUnit, forces_level_0_up, is_free, pick_full
from pkray.lsm.levels import Levels
from pkray.lsm.record_expiry import files_to_purge
from pkray.metadata.live import BucketId
from pkray.service.committed_files import CommittedFiles
from pkray.service.compaction.age import CompactionAge
from pkray.service.compaction.compactions import Compactions
from pkray.service.compaction.policy import compacts_inline, pick_due
from pkray.service.schema_cache import SchemaCache
from pkray.service.stats import CompactionStats

_log = logging.getLogger(__name__)


class CompactionScheduler:
    """Starts compactions that are due, and makes writers wait where they fall behind.

    Args:
        committed: the owner's files, which compactions merge.
        age: of the rows that were not compacted fully yet.
        clock: epoch milliseconds.
    """

    def __init__(
        self,
        compactions: Compactions,
        schema: SchemaCache,
        committed: CommittedFiles,
        age: CompactionAge,
        clock: Callable[[], int],
    ) -> None:
        self.compactions = compactions
        self._schema = schema
        self._committed = committed
        self._age = age
        self._clock = clock
        self._open: set[BucketId] = set()
        self._waiting: Counter[BucketId] = Counter()
        self._waits = 0
        self._waited_seconds = 0.0

    @property
    def is_inline(self) -> bool:
        return compacts_inline(self._schema.current)

    @property
    def are_pending(self) -> bool:
        """Whether something runs, waits to be committed or is to be looked at again."""
        waiting = self._has_interval and any(
            self._committed.levels(b).files for b in self._aged().dirty
        )
        return self.compactions.are_pending or bool(self._open) or waiting

    def consider(self, buckets: Iterable[BucketId] = ()) -> None:
        """Start what is due in these buckets, and in those that could not be begun before."""
        if self._schema.current.core.write_only or self.is_inline:
            return
        self._open.update(buckets, self.compactions.failed())
        if self._has_interval:
            self._open.update(b for b in self._aged().dirty if self._committed.levels(b).files)
        for bucket in list(self._open):
            if self.compactions.has(bucket):
                continue
            levels = self._committed.levels(bucket)
            unit = self._unit(bucket, levels)
            if unit is None or self.compactions.start(bucket, unit, levels):
                self._open.discard(bucket)

    def settle(self, *, begin: bool = True) -> None:
        """Let go of what is committed or out of date.

        Args:
            begin: what is due in those buckets now; else that is left for later.
        """
        held = set(self.compactions.buckets())
        self.compactions.settle(self._committed.levels)
        self._open.update(held - set(self.compactions.buckets()))
        if begin:
            self.consider()

    def overdue(self, written: Iterable[BucketId]) -> set[BucketId]:
        """List the buckets that the commit being made has to compact fully.

        All that have waited do so together, so that their changelogs belong together.

        Args:
            written: buckets the commit writes to.
        """
        options = self._schema.current.core
        if options.write_only or not self._has_age:
            return set()
        if not self._aged().overdue(self._clock(), committing=True):
            return set()
        waiting = {b for b in self._aged().dirty if self._committed.levels(b).files}
        return waiting.union(written)

    @property
    def commits_compact(self) -> bool:
        """Whether a commit has to bring level 0 up, so that it can promise what it shows."""
        schema = self._schema.current
        if schema.core.write_only:
            return False
        return self.is_inline or (forces_level_0_up(schema) and schema.core.lookup_wait)

    def interrupted(self, buckets: Iterable[BucketId]) -> set[BucketId]:
        """List the buckets that a commit was to bring up from level 0, and was killed before it
        did."""
        if not self.commits_compact:
            return set()
        return {
            b for b in buckets if any(file.level == 0 for file in self._committed.levels(b).files)
        }

    def make_room(self, written: Iterable[BucketId], full: Collection[BucketId]) -> None:
        """Wait, before a commit, where compaction is too far behind, or in the way.

        Args:
            written: buckets the commit is about.
            full: those it compacts fully itself.

        Raises:
            PkrayError: a bucket that has to be compacted first cannot be.
        """
        self.compactions.discard(full)
        for bucket in written:
            if bucket not in full:
                self._wait_below_stop(bucket)
                if self._is_in_the_way(bucket):
                    self.compactions.wait([bucket])

    def has_room(self, written: Iterable[BucketId], full: Collection[BucketId]) -> bool:
        """Whether a commit need not wait."""
        if any(self.compactions.has(bucket) for bucket in full):
            return False
        return not any(
            self._is_at_stop(bucket) or self._is_in_the_way(bucket)
            for bucket in written
            if bucket not in full
        )

    def compact(self, buckets: Collection[BucketId], full: bool) -> list[BucketId]:
        """Compact what is due in these buckets, or everything; returns when that is done.

        Returns:
            The buckets with something to be committed.

        Raises:
            PkrayError: a compaction failed.
        """
        if self.is_inline:
            return []
        if full:
            self.compactions.discard(buckets)
        self.compactions.wait(buckets)
        begun = []
        for bucket in buckets:
            levels = self._committed.levels(bucket)
            if self.compactions.result(bucket, levels) is not None:
                begun.append(bucket)
                continue
            unit = self._full(levels) if full else self._unit(bucket, levels)
            if unit is not None and self.compactions.start(bucket, unit, levels, rested=True):
                begun.append(bucket)
        self.compactions.wait(begun)
        for bucket in begun:
            self._raise_failure(bucket)
        return begun

    def stats(self) -> CompactionStats:
        """Count compactions, and commits that had to wait for them."""
        return CompactionStats(
            **vars(self.compactions.stats()),
            writers_waiting=len(self._waiting),
            writer_waits=self._waits,
            writer_wait_seconds=round(self._waited_seconds, 3),
        )

    @property
    def _has_age(self) -> bool:
        return (
            self._has_interval
            or self._schema.current.core.full_compaction_delta_commits is not None
        )

    def _aged(self) -> CompactionAge:
        """The age as of the newest snapshot known."""
        self._age.advance(self._committed.snapshot_id)
        return self._age

    @property
    def _has_interval(self) -> bool:
        return any(interval is not None for interval in self._intervals)

    @property
    def _intervals(self) -> tuple[int | None, int | None]:
        options = self._schema.current.core
        return options.changelog_compaction_interval, options.compaction_optimization_interval

    def _unit(self, bucket: BucketId, levels: Levels) -> CompactionUnit | None:
        schema = self._schema.current
        for interval in self._intervals:
            if interval is not None and self._aged().is_older(bucket, self._clock(), interval):
                return self._full(levels)
        return pick_due(schema, levels, commits_compact=self.commits_compact)

    def _full(self, levels: Levels) -> CompactionUnit | None:
        schema = self._schema.current
        purged = files_to_purge(levels, schema, self._schema.read, self._clock())
        return pick_full(levels.runs(), schema.core, purged)

    def _is_in_the_way(self, bucket: BucketId) -> bool:
        """Whether the bucket's compaction has files that a commit itself has to compact."""
        compacting = self.compactions.files_compacting(bucket)
        if not compacting:
            return False
        schema = self._schema.current
        if schema.core.commit_force_compact:
            return True
        return self.commits_compact and not is_free(
            self._committed.levels(bucket).runs(), compacting
        )

    def _is_at_stop(self, bucket: BucketId) -> bool:
        options = self._schema.current.core
        levels = self._committed.levels(bucket)
        if options.write_only or self.is_inline:
            return False
        if len(levels.runs()) < options.num_sorted_run_stop_trigger:
            return False
        if self.compactions.result(bucket, levels) is not None:
            return False
        return self._unit(bucket, levels) is not None

    def _wait_below_stop(self, bucket: BucketId) -> None:
        if not self._is_at_stop(bucket):
            return
        limit = self._schema.current.core.num_sorted_run_stop_trigger
        levels = self._committed.levels(bucket)
        unit = self._unit(bucket, levels)
        if unit is None:
            return
        _log.warning(
            "writers to bucket %s wait for its compaction: it has %d sorted runs, and "
            "num-sorted-run.stop-trigger is %d",
            bucket[1],
            len(levels.runs()),
            limit,
            extra={"bucket": bucket[1]},
        )
        self._waits += 1
        self._waiting[bucket] += 1
        began = time.monotonic()
        try:
            begun = self.compactions.start(bucket, unit, levels, rested=True)
            if not begun and not self.compactions.has(bucket):
                raise ServiceUnavailableError(
                    f"the owner of bucket {bucket[1]} is closing: open a writer again",
                    callee="owner",
                )
            self.compactions.wait([bucket])
        finally:
            self._waited_seconds += time.monotonic() - began
            self._waiting[bucket] -= 1
            self._waiting += Counter()  # without zeros
        self._raise_failure(bucket)

    def _raise_failure(self, bucket: BucketId) -> None:
        error = self.compactions.failure(bucket)
        if error is not None:
            raise error
