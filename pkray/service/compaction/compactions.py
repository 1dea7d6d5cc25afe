"""Compactions of an owner's buckets, concurrently with its writers."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass

from pkray import spans
from pkray.format.commit_message import CommitMessage
from pkray.lsm.compaction.compactor import CompactionResult, Compactor
from pkray.lsm.compaction.pick import CompactionUnit
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.levels import Levels
from pkray.metadata.live import BucketId
from pkray.service.compaction import job
from pkray.service.progress import BESIDE_CALLS
from pkray.service.stats import CompactionCounts
from pkray.service.timing.elapsed import elapsed

_log = logging.getLogger(__name__)

FIRST_REST_MILLIS, LONGEST_REST_MILLIS = 1_000, 300_000
"""How long a bucket is left alone after a compaction of it failed, at first and at most."""


@dataclass(frozen=True)
class _Rest:
    since: int
    millis: int
    error: BaseException


class CompactionBackoff:
    """The back-off of buckets whose compaction failed; each failure in a row doubles it.

    Args:
        clock: epoch milliseconds.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._back_off: dict[BucketId, _Rest] = {}

    def __bool__(self) -> bool:
        return bool(self._back_off)

    def buckets(self) -> list[BucketId]:
        """List the buckets whose last compaction failed, rested or not."""
        return list(self._back_off)

    def has(self, bucket: BucketId) -> bool:
        """Whether the bucket is to be left alone now."""
        rest = self._back_off.get(bucket)
        return rest is not None and not elapsed(rest.since, self._clock(), rest.millis)

    def reason(self, bucket: BucketId) -> BaseException | None:
        """Say why the bucket's last compaction failed, while it rests."""
        return self._back_off[bucket].error if self.has(bucket) else None

    def add(self, bucket: BucketId, error: BaseException) -> None:
        """Note that a compaction of the bucket failed."""
        last = self._back_off.get(bucket)
        millis = min(2 * last.millis, LONGEST_REST_MILLIS) if last else FIRST_REST_MILLIS
        self._back_off[bucket] = _Rest(self._clock(), millis, error)
        _log.warning(
            "compacting bucket %s failed (%s); it is tried again in %.0f s at the earliest",
            bucket[1],
            error,
            millis / 1000,
            extra={"bucket": bucket[1]},
        )

    def end(self, bucket: BucketId) -> None:
        """Note that a compaction of the bucket succeeded, or that there is nothing to compact any
        more."""
        self._back_off.pop(bucket, None)


OpenCompactor = Callable[[BucketId, job.CancellationToken], tuple[Compactor, DataFileStore]]

_COUNTED = ("started", "committed", "dropped", "failed")


class Compactions:
    """The compactions of committed files, at most one a bucket; an outcome waits to be committed.

    Committed files do not change, so that nothing is locked while it runs. Thread-safe.

    Args:
        executor: where compactions run.
        open_compactor: of a bucket; it reads through `StoppableFiles`.
        clock: epoch milliseconds.
    """

    def __init__(
        self, executor: Executor, open_compactor: OpenCompactor, clock: Callable[[], int]
    ) -> None:
        self._executor = executor
        self._open_compactor = open_compactor
        self._held: dict[BucketId, job.CompactionJob] = {}
        self._reserved: set[BucketId] = set()
        self._back_off = CompactionBackoff(clock)
        self._counts: Counter[str] = Counter()
        self._changed = threading.Condition(threading.RLock())
        self._closed = False

    def start(
        self, bucket: BucketId, unit: CompactionUnit, levels: Levels, *, rested: bool = False
    ) -> bool:
        """Begin to compact; False where the bucket has a compaction already, or is left alone.

        Args:
            levels: the committed files.
            rested: begin even if the last one failed just now, and after a commit that may
                compact the bucket itself.
        """
        with self._changed:
            if rested:
                self._changed.wait_for(lambda: self._closed or bucket not in self._reserved)
            alone = self._back_off.has(bucket) and not rested
            taken = bucket in self._held or bucket in self._reserved
            if self._closed or taken or alone:
                return False
            stop = job.CancellationToken()
            compactor, files = self._open_compactor(bucket, stop)
            held = self._held[bucket] = job.CompactionJob(unit, levels, files, stop)
            self._counts["started"] += 1
            with spans.within(bucket=bucket[1]):
                run = spans.carried(self._run)
            held.future = self._executor.submit(run, compactor, held)
        ended = spans.carried(lambda done: self._ended(bucket, held, done))
        held.future.add_done_callback(ended)
        return True

    @contextmanager
    def reserved(self, buckets: Collection[BucketId]) -> Iterator[None]:
        """Reserve buckets while a commit is prepared that may compact these itself: nothing begins
        in them, and what waits there is not deleted."""
        with self._changed:
            self._reserved.update(buckets)
        try:
            yield
        finally:
            with self._changed:
                self._reserved.difference_update(buckets)
                self._changed.notify_all()

    def buckets(self) -> list[BucketId]:
        """List the buckets with a compaction running, or waiting to be committed."""
        with self._changed:
            return list(self._held)

    def has(self, bucket: BucketId) -> bool:
        """Whether one is running, or its outcome waits to be committed."""
        return bucket in self._held

    def files_compacting(self, bucket: BucketId) -> Collection[str]:
        """Name the files that are being compacted."""
        with self._changed:
            held = self._held.get(bucket)
            return held.inputs if held is not None and held.is_running else ()

    def finished(self) -> list[BucketId]:
        """List the buckets whose outcome waits to be committed."""
        with self._changed:
            return [bucket for bucket, held in self._held.items() if held.result is not None]

    def result(self, bucket: BucketId, levels: Levels) -> CompactionResult | None:
        """Return the outcome that waits, if it fits these committed files."""
        with self._changed:
            held = self._held.get(bucket)
            return held.result if held is not None and held.fits(levels) else None

    def hold_prepared(self, messages: Iterable[CommitMessage]) -> None:
        """Note that files that these messages name are never deleted from here."""
        with self._changed:
            for message in messages:
                held = self._held.get((message.partition, message.bucket))
                if held is not None:
                    named = (*message.compact_after, *message.compact_changelog_files)
                    held.prepared |= held.made.intersection(file.file_name for file in named)

    def settle(self, levels_of: Callable[[BucketId], Levels]) -> None:
        """Let go of what has been committed, and of what no longer can be.

        Args:
            levels_of: the committed files of a bucket.
        """
        with self._changed:
            for bucket in self._back_off.buckets():
                if not levels_of(bucket).files:
                    self._back_off.end(bucket)
            for bucket, held in list(self._held.items()):
                holds = held.fits(levels_of(bucket)) and not held.is_old(job.UNNAMED_MILLIS)
                if bucket in self._reserved or holds:
                    continue
                if held.is_running:
                    held.end()
                else:
                    self._let_go(bucket, held, held.is_in(levels_of(bucket)))

    def release(self, levels_of: Callable[[BucketId], Levels]) -> None:
        """Let go of what was handed over, committed or not: never hand it over again.

        It may have been committed and rolled back since, and its files be gone.

        Args:
            levels_of: the committed files of a bucket.
        """
        with self._changed:
            for bucket, held in list(self._held.items()):
                is_taken = bucket in self._reserved
                if held.prepared and held.result is not None and not is_taken:
                    self._let_go(bucket, held, held.is_in(levels_of(bucket)))

    def discard(self, buckets: Iterable[BucketId]) -> None:
        """Stop compacting these buckets, and drop what was not handed over."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._reserved.isdisjoint(buckets))
            chosen = [bucket for bucket in buckets if bucket in self._held]
            for bucket in chosen:
                self._held[bucket].end()
            self.wait(chosen)
            for bucket in chosen:
                held = self._held.get(bucket)
                if held is not None:
                    self._let_go(bucket, held, committed=False)

    def wait(self, buckets: Collection[BucketId] | None = None) -> None:
        """Wait until no compaction runs in these buckets (in any by default), nor a commit's."""
        with self._changed:
            self._changed.wait_for(lambda: not self._runs_in(buckets))

    def failure(self, bucket: BucketId) -> BaseException | None:
        """Say why the bucket's last compaction did not end well, while it rests."""
        with self._changed:
            return self._back_off.reason(bucket)

    def failed(self) -> list[BucketId]:
        """List the buckets whose last compaction failed."""
        with self._changed:
            return self._back_off.buckets()

    @property
    def are_pending(self) -> bool:
        """Whether any runs, waits to be committed or has failed."""
        return bool(self._held or self._back_off)

    def stats(self) -> CompactionCounts:
        """Count since the start, and what there is now."""
        with self._changed:
            running = sum(held.is_running for held in self._held.values())
            return CompactionCounts(
                **{name: self._counts[name] for name in _COUNTED},
                running=running,
                finished=len(self._held) - running,
            )

    def close(self) -> None:
        """Stop all compactions, and drop what was not handed over."""
        with self._changed:
            self._closed = True
            self.discard(list(self._held))

    def _run(self, compactor: Compactor, held: job.CompactionJob) -> CompactionResult:
        with spans.span("compact"), BESIDE_CALLS:
            held.stop.check()
            return compactor.run(held.unit, held.levels)

    def _ended(
        self, bucket: BucketId, held: job.CompactionJob, future: Future[CompactionResult]
    ) -> None:
        error = None if future.cancelled() else future.exception()
        with self._changed:
            if self._held.get(bucket) is held and (future.cancelled() or error is not None):
                del self._held[bucket]
            if error is None:
                self._back_off.end(bucket)
            elif isinstance(error, job.CompactionCancelled):
                self._counts["dropped"] += 1
            else:
                self._counts["failed"] += 1
                self._back_off.add(bucket, error)
            self._changed.notify_all()

    def _runs_in(self, buckets: Collection[BucketId] | None) -> bool:
        chosen = self._held if buckets is None else buckets
        if not self._closed and not self._reserved.isdisjoint(chosen):
            return True
        return any(b in self._held and self._held[b].is_running for b in chosen)

    def _let_go(self, bucket: BucketId, held: job.CompactionJob, committed: bool) -> None:
        del self._held[bucket]
        result = held.result
        if result is None:
            return
        self._counts["committed" if committed else "dropped"] += 1
        kept = held.inputs | held.prepared
        made = [*result.after, *result.changelog]
        held.files.delete(file for file in made if file.file_name not in kept)
