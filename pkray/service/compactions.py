"""Compactions of an owner's buckets, beside its writers."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pkray.format.commit_message import CommitMessage
from pkray.format.data_file import DataFileMeta
from pkray.lsm.compaction import CompactionUnit
from pkray.lsm.compactor import CompactionResult, Compactor
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.levels import Levels
from pkray.service.committed import BucketId

_log = logging.getLogger(__name__)

FIRST_REST_MILLIS, LONGEST_REST_MILLIS = 1_000, 300_000
"""How long a bucket is left alone after a compaction of it failed, at first and at most."""


class CompactionStopped(Exception):
    """The compaction was no longer wanted."""


class Stop:
    """Asks a compaction to end; the end of the process does so too."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def ask(self) -> None:
        self._asked.set()

    def check(self) -> None:
        """Raises CompactionStopped: it is to end."""
        if self._asked.is_set() or not threading.main_thread().is_alive():
            raise CompactionStopped


class StoppableFiles(DataFileStore):
    """A bucket's files, until the reader is to stop."""

    stop: Stop

    def read(self, file: DataFileMeta, *args: Any, **kwargs: Any) -> Iterator[pa.RecordBatch]:
        for rows in super().read(file, *args, **kwargs):
            self.stop.check()
            yield rows


OpenCompactor = Callable[[BucketId, Stop], tuple[Compactor, DataFileStore]]


@dataclass
class _Compaction:
    """One, from its start until its outcome is committed or out of date."""

    unit: CompactionUnit
    levels: Levels
    files: DataFileStore
    stop: Stop
    future: Future[CompactionResult] | None = None
    handed_over: set[str] = field(default_factory=set)

    @property
    def inputs(self) -> set[str]:
        return {file.file_name for run in self.unit.runs for file in run.files}

    @property
    def is_running(self) -> bool:
        return self.future is None or not self.future.done()

    @property
    def result(self) -> CompactionResult | None:
        if self.is_running:
            return None
        assert self.future is not None
        if self.future.cancelled() or self.future.exception() is not None:
            return None
        return self.future.result()

    def end(self) -> None:
        """Ask it to end, if it has begun at all."""
        self.stop.ask()
        if self.future is not None:
            self.future.cancel()

    def fits(self, levels: Levels) -> bool:
        """Whether its outcome can still take its inputs' place."""
        live = {(file.file_name, file.level) for file in levels.files}
        inputs = {(f.file_name, f.level) for run in self.unit.runs for f in run.files}
        output, least = self.unit.output_level, self.unit.runs[0].level
        if not inputs <= live or levels.above(output) != self.levels.above(output):
            return False
        others = [f for f in levels.files if (f.file_name, f.level) not in inputs]
        return all(f.level == 0 or f.level < least or f.level > output for f in others)

    def is_in(self, levels: Levels) -> bool:
        """Whether its outcome is committed."""
        live = {(file.file_name, file.level) for file in levels.files}
        result = self.result
        return result is not None and live.issuperset((f.file_name, f.level) for f in result.after)


class Compactions:
    """At most one compaction a bucket, of committed files; its outcome waits to be committed.

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
        self._clock = clock
        self._held: dict[BucketId, _Compaction] = {}
        self._rests: dict[BucketId, tuple[int, int]] = {}
        self._failures: dict[BucketId, BaseException] = {}
        self._counts: Counter[str] = Counter()
        self._changed = threading.Condition(threading.RLock())
        self._closed = False

    def start(
        self, bucket: BucketId, unit: CompactionUnit, levels: Levels, *, rested: bool = False
    ) -> bool:
        """Begin to compact; False where the bucket has a compaction already, or is left alone.

        Args:
            levels: the committed files.
            rested: begin even if the last one failed just now.
        """
        with self._changed:
            alone = self._is_resting(bucket) and not rested
            if self._closed or bucket in self._held or alone:
                return False
            stop = Stop()
            compactor, files = self._open_compactor(bucket, stop)
            held = self._held[bucket] = _Compaction(unit, levels, files, stop)
            self._counts["started"] += 1
            held.future = self._executor.submit(self._run, compactor, held)
        held.future.add_done_callback(lambda done: self._ended(bucket, held, done))
        return True

    def buckets(self) -> list[BucketId]:
        """Those with a compaction running, or waiting to be committed."""
        with self._changed:
            return list(self._held)

    def has(self, bucket: BucketId) -> bool:
        """Whether one is running, or its outcome waits to be committed."""
        return bucket in self._held

    def busy(self, bucket: BucketId) -> Collection[str]:
        """Names of the files that are being compacted."""
        with self._changed:
            held = self._held.get(bucket)
            return held.inputs if held is not None and held.is_running else ()

    def finished(self) -> list[BucketId]:
        """Buckets whose outcome waits to be committed."""
        with self._changed:
            return [bucket for bucket, held in self._held.items() if held.result is not None]

    def result(self, bucket: BucketId, levels: Levels) -> CompactionResult | None:
        """The outcome that waits, if it fits these committed files."""
        with self._changed:
            held = self._held.get(bucket)
            return held.result if held is not None and held.fits(levels) else None

    def handed_over(self, messages: Iterable[CommitMessage]) -> None:
        """Files that these messages name are never deleted from here."""
        with self._changed:
            for message in messages:
                held = self._held.get((message.partition, message.bucket))
                if held is not None:
                    named = (*message.compact_after, *message.compact_changelog_files)
                    held.handed_over.update(file.file_name for file in named)

    def settle(self, levels_of: Callable[[BucketId], Levels]) -> None:
        """Let go of what has been committed, and of what no longer can be.

        Args:
            levels_of: the committed files of a bucket.
        """
        with self._changed:
            for bucket in [b for b in self._rests if not levels_of(b).files]:
                self._forget_failure(bucket)
            for bucket, held in list(self._held.items()):
                if held.fits(levels_of(bucket)):
                    continue
                if held.is_running:
                    held.end()
                else:
                    self._let_go(bucket, held, held.is_in(levels_of(bucket)))

    def spend(self, levels_of: Callable[[BucketId], Levels]) -> None:
        """Let go of what was handed over, committed or not: never hand it over again.

        It may have been committed and rolled back since, and its files be gone.

        Args:
            levels_of: the committed files of a bucket.
        """
        with self._changed:
            for bucket, held in list(self._held.items()):
                if held.handed_over and held.result is not None:
                    self._let_go(bucket, held, held.is_in(levels_of(bucket)))

    def discard(self, buckets: Iterable[BucketId]) -> None:
        """Stop compacting these buckets, and drop what was not handed over."""
        with self._changed:
            chosen = [bucket for bucket in buckets if bucket in self._held]
            for bucket in chosen:
                self._held[bucket].end()
            self.wait(chosen)
            for bucket in chosen:
                held = self._held.get(bucket)
                if held is not None:
                    self._let_go(bucket, held, committed=False)

    def wait(self, buckets: Collection[BucketId] | None = None) -> None:
        """Until no compaction runs in these buckets (in any by default)."""
        with self._changed:
            self._changed.wait_for(lambda: not self._runs_in(buckets))

    def failure(self, bucket: BucketId) -> BaseException | None:
        """Why the bucket's last compaction did not end well, while it rests."""
        with self._changed:
            return self._failures.get(bucket) if self._is_resting(bucket) else None

    def failed(self) -> list[BucketId]:
        """Buckets whose last compaction failed."""
        with self._changed:
            return list(self._rests)

    @property
    def are_pending(self) -> bool:
        """Whether any runs, waits to be committed or has failed."""
        return bool(self._held or self._rests)

    def stats(self) -> Mapping[str, int]:
        """Counters since the start: started, committed, dropped and failed; and of now."""
        with self._changed:
            running = sum(held.is_running for held in self._held.values())
            return {
                **{name: self._counts[name] for name in _COUNTED},
                "running": running,
                "finished": len(self._held) - running,
            }

    def close(self) -> None:
        """Stop, and drop what was not handed over."""
        with self._changed:
            self._closed = True
            self.discard(list(self._held))

    def _run(self, compactor: Compactor, held: _Compaction) -> CompactionResult:
        held.stop.check()
        return compactor.run(held.unit, held.levels)

    def _ended(self, bucket: BucketId, held: _Compaction, future: Future[CompactionResult]) -> None:
        error = None if future.cancelled() else future.exception()
        with self._changed:
            if self._held.get(bucket) is held and (future.cancelled() or error is not None):
                del self._held[bucket]
            if error is None:
                self._forget_failure(bucket)
            elif isinstance(error, CompactionStopped):
                self._counts["dropped"] += 1
            else:
                self._rest(bucket, error)
            self._changed.notify_all()

    def _forget_failure(self, bucket: BucketId) -> None:
        self._rests.pop(bucket, None)
        self._failures.pop(bucket, None)

    def _rest(self, bucket: BucketId, error: BaseException) -> None:
        _, last = self._rests.get(bucket, (0, FIRST_REST_MILLIS // 2))
        rest = min(2 * last, LONGEST_REST_MILLIS)
        self._rests[bucket] = self._clock() + rest, rest
        self._failures[bucket] = error
        self._counts["failed"] += 1
        _log.warning(
            "compacting bucket %s failed (%s); it is tried again in %.0f s at the earliest",
            bucket[1],
            error,
            rest / 1000,
        )

    def _is_resting(self, bucket: BucketId) -> bool:
        return bucket in self._rests and self._clock() < self._rests[bucket][0]

    def _runs_in(self, buckets: Collection[BucketId] | None) -> bool:
        chosen = self._held if buckets is None else buckets
        return any(b in self._held and self._held[b].is_running for b in chosen)

    def _let_go(self, bucket: BucketId, held: _Compaction, committed: bool) -> None:
        del self._held[bucket]
        result = held.result
        if result is None:
            return
        self._counts["committed" if committed else "dropped"] += 1
        kept = held.inputs | held.handed_over
        made = [*result.after, *result.changelog]
        held.files.delete(file for file in made if file.file_name not in kept)


_COUNTED = ("started", "committed", "dropped", "failed")
