"""Hold one unit of uncommitted work for an owner."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pkray.errors import LostBatchesError, MissingFileError, SchemaChangedError
from pkray.lsm.keys.key_groups import detached
from pkray.lsm.levels import Levels
from pkray.lsm.writer.bucket_writer import BucketWriter
from pkray.lsm.writer.uncommitted import Uncommitted
from pkray.metadata.live import BucketId
from pkray.service.compaction.job import UNNAMED_MILLIS
from pkray.service.owner.buckets import OwnedBuckets
from pkray.service.owner.prepared_commit import PreparedCommit
from pkray.service.protocol import DRIVER, Attempts, Push, RoutedBatch
from pkray.service.staging import StagingArea
from pkray.service.timing.elapsed import elapsed
from pkray.storage.uploads import Uploads, side_by_side

_RENEWED_EVERY_MILLIS = 60 * 60 * 1000
"""Well below the time after which files are old (`UNNAMED_MILLIS`)."""


class OwnerSession:
    """Bucket writers, attempts that wait for their report, and the commit that is prepared.

    Whoever writes is `exclusive`, and may be long; `uncommitted`, `rebase_when_free` and `end` are
    for others meanwhile, and do not wait.

    Args:
        buckets: opens their writers.
        staging: where attempts of tasks wait.
        memory_limit: says how many bytes of rows are kept in memory now, over all buckets.
    """

    def __init__(
        self, buckets: OwnedBuckets, staging: StagingArea, memory_limit: Callable[[], int]
    ) -> None:
        self._buckets = buckets
        self._lock = threading.RLock()
        self._ended = False
        self._newer: Callable[[BucketId], Levels] | None = None
        self._replacements = buckets.schema_replacements
        self.schema_id: int | None = None
        """The schema whose columns its rows have."""
        self.staging = staging
        self._memory_limit = memory_limit
        self.writers: dict[BucketId, BucketWriter] = {}
        self.prepared = PreparedCommit()
        self.new_hashes: dict[BucketId, list[bytes]] = {}
        """Of dynamic buckets: key hashes that their committed index may lack."""
        self._renewed: int | None = None
        self._sent = Uploads()
        self._taken = AppliedBatches(staging)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the session's writers alone.

        Raises:
            LostBatchesError: the session has ended.
            SchemaChangedError: its rows are of schemas that others have taken the place of.
        """
        try:
            with self._lock:
                if self._ended:
                    raise LostBatchesError(
                        "the session has ended meanwhile: a newer writer of its user came, or "
                        "the table was rolled back; push again"
                    )
                self.leave_replaced_schemas()
                if self._newer is not None:
                    self._rebase(self._newer)
                yield
        finally:
            if self._ended:
                self.end()

    def end(self) -> None:
        """Let everything go, once nobody is at work; files that were handed over stay."""
        self._ended = True
        if self._lock.acquire(blocking=False):
            try:
                self._abort()
            finally:
                self._lock.release()

    def rebase_when_free(self, levels: Callable[[BucketId], Levels]) -> None:
        """Build on other committed files: the table was rolled back. Not at once, where somebody
        writes."""
        self._newer = levels
        if self._lock.acquire(blocking=False):
            try:
                self._rebase(levels)
            finally:
                self._lock.release()

    def uncommitted(
        self, bucket: BucketId, committed: Levels, schema_id: int
    ) -> Uncommitted | None:
        """Return what it holds of a bucket, None where that is nothing or committed.

        Args:
            committed: the bucket's committed files, which it is to be based on.
            schema_id: of the schema that it is wanted under.
        """
        held = self.writers.get(bucket)
        if held is None or self.is_replaced:
            return None
        is_old = held.uncommitted.schema_id < schema_id
        if is_old or not held.uncommitted.follows(committed):
            self._follow(bucket, committed, wait=is_old)
        found = held.uncommitted
        if found.is_in(committed) or not (found.files or found.memory.rows):
            return None
        return found

    @property
    def batches(self) -> int:
        """The number of the driver's batches that are in its writers."""
        return self._taken.count((DRIVER, 0))

    @property
    def is_replaced(self) -> bool:
        """Whether others have taken the place of the schemas that its rows are of."""
        return self._replacements != self._buckets.schema_replacements

    @property
    def written(self) -> list[BucketId]:
        """Buckets that it holds rows of."""
        writers = list(self.writers.items())
        return [b for b, held in writers if held.memory_rows or held.uncommitted.files]

    def expect(self, push: Push) -> None:
        """Note the schema of the session's rows.

        Raises:
            SchemaChangedError: those that came before have another.
        """
        if self.schema_id not in (None, push.schema_id):
            raise SchemaChangedError(
                f"rows of schema {push.schema_id} came after rows of schema {self.schema_id} of "
                f"the same commit of {push.session.user!r}: open a new writer and write them again",
                schema_id=push.schema_id,
                expected=self.schema_id,
            )
        self.schema_id = push.schema_id

    def write(self, push: Push, batch: RoutedBatch) -> None:
        """Take a batch of the driver's into memory, once.

        Raises:
            LostBatchesError: an earlier one is missing.
            SchemaChangedError: the table was rescaled.
        """
        attempt = (push.source, push.attempt)
        expected = self._taken.count(attempt)
        if push.index < expected:
            return
        if push.index > expected:
            self._buckets.check_not_rescaled(push.schema_id)
            raise LostBatchesError(
                f"batch {push.index} of {push.session.user!r} came, but {expected} was to come "
                "next: the owner restarted; push from there again",
                user=push.session.user,
                expected=expected,
                got=push.index,
            )
        self._apply(batch)
        self._taken.note(attempt, expected + 1)

    def promote(self, attempts: Attempts) -> None:
        """Write the staged batches of the attempts that count.

        Raises:
            LostBatchesError: some are not here.
        """
        self._taken.require(attempts)
        for source in sorted(attempts):
            attempt = (source, attempts[source][0])
            if not self._taken.count(attempt):
                for batch in self.staging.take(attempt):
                    self._apply(batch)
                self._taken.note(attempt, attempts[source][1])
        self.staging.clear()

    def leave_replaced_schemas(self) -> None:
        """Drop what was made under schemas that are no more.

        Raises:
            SchemaChangedError: its rows were.
        """
        if not self.is_replaced:
            return
        self._lose_rows()
        self.prepared.undo()
        if self.schema_id is not None:
            raise SchemaChangedError(
                "the columns or options of the table were replaced by those of a branch since "
                "the rows were written: load the table again, open a new writer and write them "
                "again",
                schema_id=self.schema_id,
            )
        self._replacements = self._buckets.schema_replacements

    def requeue(self, attempt_id: str) -> None:
        """Undo what was prepared; its rows are prepared again.

        An earlier attempt may have published it, and the table have been rolled back since, so
        that its files go: they are written again, and where they are gone the rows are lost.

        Args:
            attempt_id: the coordinator's. One that asks again has published nothing.
        """
        if not self.prepared.is_prepared:
            return
        try:
            for writer in self.writers.values():
                writer.requeue(rewrite=self.prepared.attempt_id != attempt_id)
        except MissingFileError:
            self._lose_rows()
        self.prepared.undo()

    def renew(self, now: int | None = None) -> None:
        """Write files again that get old, unless they are handed over. Where a cleaner was faster
        the rows are lost, and are to be pushed again.

        Args:
            now: epoch milliseconds; if given, it is done once in an hour.
        """
        if self.prepared.is_prepared:
            return
        if now is not None:
            if self._renewed is not None and not elapsed(self._renewed, now, _RENEWED_EVERY_MILLIS):
                return
            self._renewed = now
        try:
            for writer in self.writers.values():
                writer.renew(UNNAMED_MILLIS)
        except MissingFileError:
            self._lose_rows()

    def writer(self, bucket: BucketId) -> BucketWriter:
        """Find the bucket's writer, opened where it is not there."""
        if bucket not in self.writers:
            self.writers[bucket] = self._buckets.open_writer(bucket)
        writer = self.writers[bucket]
        self._buckets.keep_current(writer)
        return writer

    def rebase(self, levels: Callable[[BucketId], Levels]) -> None:
        """Build on these committed files."""
        for bucket, writer in self.writers.items():
            writer.rebase(levels(bucket))

    def _rebase(self, levels: Callable[[BucketId], Levels]) -> None:
        if not self.prepared.is_prepared:
            self.rebase(levels)
        self._newer = None

    def _follow(self, bucket: BucketId, committed: Levels, wait: bool) -> None:
        """Number the bucket's rows after the committed ones, unless they are being committed."""
        if self._lock.acquire(blocking=wait):
            try:
                if bucket in self.writers and not self.prepared.is_prepared:
                    self.writer(bucket).rebase(committed)
            finally:
                self._lock.release()

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Have files that are written go out side by side; all are there in the end.

        Raises:
            StorageError: one is not. Its rows are nowhere else: it is sent again before anything
                else is done with them.
        """
        with side_by_side() as sent:
            self._sent = sent
            yield

    def send_again(self) -> None:
        """Send files that could not be written when they were sent.

        Raises:
            StorageError: they cannot be written yet.
        """
        unsent = self._sent.unsent
        if unsent:
            with side_by_side() as self._sent:
                for each in unsent:
                    self._sent.begin(each)

    def _lose_rows(self) -> None:
        self._abort()
        self.new_hashes.clear()
        self._taken.clear()

    def _abort(self) -> None:
        self.staging.clear()
        self._sent = Uploads()
        for writer in self.writers.values():
            writer.abort()
        self.writers = {}

    def _apply(self, batch: RoutedBatch) -> None:
        assert self.schema_id is not None
        current = self._buckets.as_current(self.schema_id, batch.rows)
        self._buckets.check_routing(batch.slices, self.schema_id)
        for piece in batch.slices:
            rows = current.slice(piece.offset, piece.length)
            if 2 * rows.nbytes < current.nbytes:  # a bucket of few rows would hold all the others'
                rows = detached(rows)
            bucket = (piece.partition, piece.bucket)
            if piece.new_hashes:
                self.new_hashes.setdefault(bucket, []).append(piece.new_hashes)
            self.writer(bucket).write(rows)
        self._bound_memory()

    def _bound_memory(self) -> None:
        held = {bucket: writer.memory_bytes for bucket, writer in self.writers.items()}
        total, limit = sum(held.values()), self._memory_limit()
        while total > limit:
            largest = max(held, key=held.__getitem__)
            total -= held.pop(largest)
            self.writers[largest].flush()


Attempt = tuple[int, int]
"""A source, and which of its attempts."""


class AppliedBatches:
    """Counts the batches taken of each attempt.

    Args:
        staging: where batches of tasks wait until they are taken.
    """

    def __init__(self, staging: StagingArea) -> None:
        self._staging = staging
        self._taken: dict[Attempt, int] = {}

    def count(self, attempt: Attempt) -> int:
        """Count those that are in the writers; batches of an attempt are taken in order."""
        return self._taken.get(attempt, 0)

    def note(self, attempt: Attempt, count: int) -> None:
        """Note that so many are in the writers."""
        self._taken[attempt] = count

    def clear(self) -> None:
        """Note that none is in the writers any more."""
        self._taken.clear()

    def require(self, attempts: Attempts) -> None:
        """Check that batches of these attempts are in the writers or staged.

        Raises:
            LostBatchesError: batches of these attempts are neither in the writers nor staged.
        """
        lost = [
            source
            for source, (attempt, count) in attempts.items()
            if self._held((source, attempt)) != count
        ]
        if lost:
            raise LostBatchesError(
                f"the owner no longer holds every batch of sources {sorted(lost)}: it restarted, "
                "or a cleaner of orphan files took what was written long ago, or the table was "
                "rolled back; push them again",
                sources=sorted(lost),
            )

    def _held(self, attempt: Attempt) -> int:
        return self.count(attempt) or self._staging.count(attempt)
