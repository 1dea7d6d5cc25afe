"""Turns what the owners prepared into snapshots, one commit at a time."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Sequence

from pkray.commit.committer import Committer
from pkray.errors import CommitFencedError
from pkray.format.commit_message import CommitMessage
from pkray.service.handle import Handle, call_all
from pkray.service.protocol import Attempts, CommitOutcome, CommitRequest, SessionId

MakeCommitter = Callable[[str, bool], Committer]
"""Takes a commit user, and whether a commit without changes makes no snapshot."""


class Coordinator:
    """Metadata alone passes through here; whatever it knows is read again after a restart.

    Args:
        owners: every owner of the table.
        make_committer: a committer for a commit user.
        clock: epoch milliseconds.
    """

    def __init__(
        self, owners: Sequence[Handle], make_committer: MakeCommitter, clock: Callable[[], int]
    ) -> None:
        self._owners = owners
        self._make_committer = make_committer
        self._clock = clock
        self._compact_user = f"pkray-compact-{uuid.uuid4()}"
        self._committers: dict[str, Committer] = {}
        self._generations: dict[str, int] = {}
        self._lock = threading.Lock()
        self._generations_lock = threading.Lock()

    def ping(self) -> None:
        """Answer."""

    def stats(self) -> dict[str, object]:
        """Counters for people and metrics."""
        return {"pid": os.getpid(), "owners": len(self._owners), "users": len(self._committers)}

    def begin(self, user: str) -> SessionId:
        """A new writer of the commit user; those before it are fenced."""
        with self._generations_lock:
            generation = max(self._clock(), self._generations.get(user, 0) + 1)
            self._generations[user] = generation
            return SessionId(user, generation)

    def last_identifier(self, user: str) -> int | None:
        """The newest identifier the user committed, or None."""
        with self._lock:
            return self._committer(user).committed_identifier()

    def committed(self, user: str, identifier: int) -> CommitOutcome | None:
        """The outcome of a commit made before, or None where it was not made."""
        with self._lock:
            return self._known(user, identifier)

    def commit(self, request: CommitRequest) -> CommitOutcome:
        """Commit a session once; repeating the request changes nothing.

        Raises:
            CommitFencedError: a newer writer of the user has begun.
            LostBatchesError: owners restarted; push again, then repeat the request.
            CommitConflictError: another commit contradicts this one; nothing was committed.
        """
        session = request.session
        with self._lock:
            known = self._known(session.user, request.identifier)
            if known is not None:
                call_all(self._owners, "abort", lambda _: (session,))
                return known
            self._refuse_fenced(session)
            return self._commit(request, self._committer(session.user))

    def abort(self, session: SessionId) -> None:
        """Drop a session that was not committed."""
        call_all(self._owners, "abort", lambda _: (session,))

    def compact(self, full: bool) -> CommitOutcome:
        """Compact every bucket; no snapshot where nothing was to be done.

        Args:
            full: into one sorted run a bucket, else what is due.
        """
        session = self.begin(self._compact_user)
        with self._lock:
            committer = self._committer(self._compact_user, ignore_empty=True)
            newest = committer.committed_identifier()
            request = CommitRequest(
                session=session,
                identifier=0 if newest is None else newest + 1,
                compact_all=True,
                full_compact=full,
            )
            return self._commit(request, committer)

    def _commit(self, request: CommitRequest, committer: Committer) -> CommitOutcome:
        session = request.session
        base = committer.latest_id() or 0
        prepared = call_all(
            self._owners,
            "prepare",
            lambda owner: (
                session,
                _attempts_of(request, owner),
                base,
                request.compact_all,
                request.full_compact,
            ),
        )
        messages: list[CommitMessage] = [message for answer in prepared for message in answer]
        result = committer.commit(request.identifier, messages, watermark=request.watermark)
        newest = result.compact or result.append
        call_all(self._owners, "acknowledge", lambda _: (session, newest.id if newest else base))
        return CommitOutcome(newest, new=result.new)

    def _known(self, user: str, identifier: int) -> CommitOutcome | None:
        committer = self._committer(user)
        newest = committer.committed_identifier()
        if newest is None or newest < identifier:
            return None
        return CommitOutcome(committer.snapshot_of(identifier), new=False)

    def _committer(self, user: str, *, ignore_empty: bool = False) -> Committer:
        if user not in self._committers:
            self._committers[user] = self._make_committer(user, ignore_empty)
        return self._committers[user]

    def _refuse_fenced(self, session: SessionId) -> None:
        newest = self._generations.get(session.user, session.generation)
        if session.generation < newest:
            raise CommitFencedError(
                f"a newer writer of commit user {session.user!r} took over; this one must not "
                "commit: stop it, or open writers with different commit users",
                user=session.user,
                generation=session.generation,
                newest=newest,
            )


def _attempts_of(request: CommitRequest, owner: int) -> Attempts:
    return {
        report.source: (report.attempt, report.batches[owner])
        for report in request.reports
        if report.batches.get(owner)
    }
