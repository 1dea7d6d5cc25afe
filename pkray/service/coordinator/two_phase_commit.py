"""Commits what all owners prepare, once more wherever others have committed meanwhile."""

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress

from pkray import spans
from pkray.commit.backoff import Backoff
from pkray.commit.committer import Committer
from pkray.errors import CommitBaseMovedError, CommitUnknownError, MissingFileError, PkrayError
from pkray.format.commit_message import CommitMessage
from pkray.format.index_file import HASH
from pkray.options import DYNAMIC
from pkray.service.calls import OwnerClient
from pkray.service.coordinator.commit_queue import CommitQueue
from pkray.service.coordinator.precedence import NOBODY, Precedence
from pkray.service.handles.handle import gather
from pkray.service.protocol import (
    Acknowledgement,
    Attempts,
    CommitOutcome,
    CommitRequest,
    HashFile,
    PrepareRequest,
    SessionId,
)

_MAX_PREPARED_AGAIN = 100
"""Each time another process has published rows, so that all together go on."""
_MAX_MISSING = 3
"""A rollback of another process may have taken what was read; else the file is gone for good."""

_LARGE = 32 << 20
"""Bytes of files that take so long to be written that others are likely to commit meanwhile: the
newest snapshot is looked for again."""

Tenure = Callable[[], Callable[[], None]]


def unchallenged() -> Callable[[], None]:
    """Begin a round of a coordinator whose owners and itself nobody replaces unseen."""
    return lambda: None


class TwoPhaseCommit:
    """Runs rounds: owners prepare, one snapshot is published, owners are told.

    Args:
        queue: of the machine's processes that commit to the table.
        watch: called where owners still compact.
        tenure: called as a round begins; what it returns is called before the round's snapshot is
            published, and raises an error where owners or the coordinator were replaced meanwhile.
        schemas: says what schemas the committers have seen, as of `SchemaStore.listing`.
        precedence: of committers on all machines.
    """

    def __init__(
        self,
        owners: Sequence[OwnerClient],
        backoff: Backoff,
        queue: CommitQueue,
        watch: Callable[[], None],
        tenure: Tenure = unchallenged,
        schemas: Callable[[], str | None] = lambda: None,
        precedence: Precedence = NOBODY,
    ) -> None:
        self._owners = owners
        self._schemas = schemas
        self._backoff = backoff
        self._queue = queue
        self._precedence = precedence
        self._watch = watch
        self._tenure = tenure
        self.prepared_again = 0
        """How many rounds were repeated, as others had committed meanwhile."""

    def run(
        self,
        request: CommitRequest,
        committer: Committer,
        generation: int | None = None,
        *,
        seen: bool = False,
    ) -> tuple[CommitOutcome, list[CommitMessage]]:
        """Commit; return the outcome, and the messages whose compaction met a conflict.

        Args:
            generation: as `Committer.commit` takes it.
            seen: the committer has just looked for the newest snapshot.

        Raises:
            CommitFencedError: another process took over from the writer.
            CommitBaseMovedError: other processes kept adding rows to the same buckets.
            MissingFileError: the table is damaged, or others kept rolling it back.
        """
        if self._precedence.give_way():
            seen = False
        try:
            return self._run(request, committer, generation, seen)
        finally:
            self._precedence.release()

    def _run(
        self, request: CommitRequest, committer: Committer, generation: int | None, seen: bool
    ) -> tuple[CommitOutcome, list[CommitMessage]]:
        tries = missing = 0
        again = False
        attempt_id = uuid.uuid4().hex
        while True:
            try:
                with self._queue.turn() as at_once:
                    seen = at_once and (again or seen)
                    return self._try_commit(request, committer, attempt_id, generation, seen)
            except CommitBaseMovedError:  # by a snapshot that was seen just now
                tries, again = tries + 1, True
                if tries > _MAX_PREPARED_AGAIN:
                    self._abort_prepare(request.session)
                    raise
            except MissingFileError:
                missing, again, seen = missing + 1, False, False
                if missing > _MAX_MISSING:
                    self._abort_prepare(request.session)
                    raise
            except CommitUnknownError:  # it may show at any moment
                raise
            except PkrayError:
                self._abort_prepare(request.session)
                raise
            self.prepared_again += 1
            if again:
                self._precedence.claim()
            elif tries + missing > 1:
                self._backoff.wait(tries + missing)

    def _abort_prepare(self, session: SessionId) -> None:
        """Owners need not expect the commit's snapshot; those that are not told forget it."""
        with suppress(PkrayError):
            gather([owner.abort_prepare.submit(session) for owner in self._owners])

    def _try_commit(
        self,
        request: CommitRequest,
        committer: Committer,
        attempt_id: str,
        generation: int | None,
        seen: bool,
    ) -> tuple[CommitOutcome, list[CommitMessage]]:
        session = request.session
        check_tenure = self._tenure()
        latest = committer.base(seen=seen)
        base = latest.id if latest else 0
        preparing = [
            owner.prepare.submit(
                session,
                PrepareRequest(
                    base,
                    _attempts_of(request, index),
                    request.compaction,
                    request.full_compact,
                    attempt_id,
                    latest,
                    self._schemas(),
                ),
                _tokens_of(request, index),
            )
            for index, owner in enumerate(self._owners)
        ]
        if request.reports:  # data files are written meanwhile
            self._precedence.look()
        prepared = gather(preparing)
        messages = [message for answer in prepared for message in answer]
        check_tenure()
        dynamic = any(message.total_buckets == DYNAMIC for message in messages)
        with spans.span("publish"):
            result = committer.commit(
                request.name,
                messages,
                watermark=request.watermark,
                properties=request.properties,
                assigned_at=base if dynamic else None,
                base=base,
                generation=generation,
                seen=_bytes_of(messages) < _LARGE,
            )
        newest = result.compact or result.append
        hash_files = _hash_files(messages) if result.new else ()
        made = tuple(each for each in (latest, result.append, result.compact) if each is not None)
        done = Acknowledgement(newest.id if newest else base, hash_files, result.new, made)
        pending = gather([owner.acknowledge.submit(session, done) for owner in self._owners])
        if any(pending):
            self._watch()
        conflicting = [m for m in messages if m.has_compact] if result.compact_conflict else []
        return CommitOutcome(newest, new=result.new), conflicting


def _bytes_of(messages: Sequence[CommitMessage]) -> int:
    return sum(file.file_size for m in messages for file in (*m.new_files, *m.compact_after))


def _tokens_of(request: CommitRequest, owner: int) -> tuple[str, ...]:
    return tuple(report.tokens[owner] for report in request.reports if owner in report.tokens)


def _hash_files(messages: Sequence[CommitMessage]) -> tuple[HashFile, ...]:
    return tuple(
        HashFile(message.partition, message.bucket, file)
        for message in messages
        for file in message.index_files
        if file.index_type == HASH
    )


def _attempts_of(request: CommitRequest, owner: int) -> Attempts:
    return {
        report.source: (report.attempt, report.batches[owner])
        for report in request.reports
        if report.batches.get(owner)
    }
