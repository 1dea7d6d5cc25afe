"""Turns what the owners prepared into snapshots, one commit at a time."""

import logging
import os
import random
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Self

from pkray import spans
from pkray.clock import now_millis
from pkray.commit.backoff import Backoff
from pkray.commit.writer_fences import WriterFences
from pkray.errors import CommitFencedError, PkrayError
from pkray.format.commit_message import CommitMessage
from pkray.format.partition_filter import ExactPartitions
from pkray.format.snapshot import APPEND
from pkray.metadata.commit_name import CommitName, CommitToken
from pkray.metrics.names import TABLE_COMMIT_FAILURES_TOTAL, TABLE_COMMIT_SECONDS
from pkray.metrics.registry import REGISTRY
from pkray.service.calls import OwnerClient
from pkray.service.coordinator.commit_queue import CommitQueue
from pkray.service.coordinator.committers import Committers
from pkray.service.coordinator.maintenance import TableMaintenance
from pkray.service.coordinator.precedence import NOBODY, Precedence
from pkray.service.coordinator.two_phase_commit import Tenure, TwoPhaseCommit, unchallenged
from pkray.service.handles.handle import gather
from pkray.service.protocol import (
    Acknowledgement,
    BucketSelection,
    CommitOutcome,
    CommitRequest,
    OverwriteRequest,
    SessionId,
)
from pkray.service.stats import CoordinatorStats
from pkray.service.timing.debounced_timer import DebouncedTimer
from pkray.storage.location import TableLocation

_log = logging.getLogger(__name__)

_A_MILLISECOND = 1_000_000
"""In nanoseconds, below which generations are random: two processes do not give the same one."""
_COMMIT_SECONDS = 5.0
"""How long after a commit finished compactions are committed by themselves."""
_ROUNDS = 8
"""Compactions one after the other, as one may make the next due."""
_NO_BUCKETS = BucketSelection(full=False, buckets=frozenset())


class WriterFencing:
    """Numbers the writers of each commit user, and fences all but the newest. Thread-safe.

    It gives the numbers out; `WriterFences` keeps the newest where other processes see it, and
    owners and assigners order by it the sessions that reach them (`OpenSessions`).

    Args:
        owners: those of the table; they know of writers before a restart.
        fences: where other processes see it.
        clock: epoch milliseconds.
        new_users: commit users that had no writer yet, and are nobody else's.
    """

    def __init__(
        self,
        owners: Sequence[OwnerClient],
        fences: WriterFences,
        clock: Callable[[], int],
        new_users: Iterable[str] = (),
    ) -> None:
        self._owners = owners
        self._fences = fences
        self._clock = clock
        self._newest = dict.fromkeys(new_users, 0)
        self._alone = set(new_users)
        self._lock = threading.Lock()

    def begin(self, user: str, alone: bool = False) -> SessionId:
        """Begin the first session of a new writer; the user's writers before it are fenced.

        Args:
            alone: nobody else has this name, so that no other process needs to know.
        """
        with self._lock:
            if alone:
                self._alone.add(user)
                self._newest.setdefault(user, 0)
            if user not in self._newest:
                # The clock may have been set back since a coordinator before this one.
                known = gather([owner.newest_generation.submit(user) for owner in self._owners])
                self._newest[user] = max(known, default=0)
            now = self._clock() * _A_MILLISECOND + secrets.randbelow(_A_MILLISECOND)
            generation = max(now, self._newest[user] + 1)
            if user not in self._alone:
                self._fences.take_over(user, generation)
            self._newest[user] = generation
            return SessionId(user, generation)

    def fenced_by(self, session: SessionId) -> int | None:
        """Return the generation by which other processes take over, None where none can."""
        return None if session.user in self._alone else session.generation

    def check_not_fenced(self, session: SessionId) -> None:
        """Check that no newer writer of the user has begun.

        Raises:
            CommitFencedError: a newer writer of the user has begun.
        """
        session.check_not_fenced(self._newest.get(session.user, 0))


class Coordinator:
    """Metadata alone passes through here; whatever it knows is read again after a restart.

    Args:
        owners: every owner of the table.
        committers: of the table.
        clock: epoch milliseconds.
        timer: commits compactions that finished when no other commit has taken them along; by
            default they wait for one.
        maintenance: expires what is old after commits; by default nothing does.
        queue: of the machine's processes that commit to the table; by default none.
        precedence: of committers on all machines; by default nobody waits for another.
        sleep: takes seconds.
        tenure: as of `TwoPhaseCommit`.
    """

    def __init__(
        self,
        owners: Sequence[OwnerClient],
        committers: Committers,
        clock: Callable[[], int],
        *,
        timer: DebouncedTimer | None = None,
        maintenance: TableMaintenance | None = None,
        queue: CommitQueue | None = None,
        precedence: Precedence | None = None,
        sleep: Callable[[float], None] = time.sleep,
        tenure: Tenure = unchallenged,
    ) -> None:
        self._owners = owners
        self._committers = committers
        self._meter = REGISTRY.of(committers.warehouse)
        self._timer = timer
        self._maintenance = maintenance
        self._maintenance_lock = threading.Lock()
        backoff = Backoff(random.SystemRandom(), sleep)
        self._tenure = tenure
        self._rounds = TwoPhaseCommit(
            owners,
            backoff,
            queue or CommitQueue(None),
            self.watch,
            tenure,
            lambda: committers.schemas,
            precedence or NOBODY,
        )
        self._compact_user = f"pkray-compact-{uuid.uuid4()}"
        self._expiry_user = f"pkray-expiry-{uuid.uuid4()}"
        self._fencing = WriterFencing(
            owners, committers.fences, clock, (self._compact_user, self._expiry_user)
        )
        self._began = clock()
        self._lock = threading.Lock()

    @classmethod
    def of_table(
        cls, location: TableLocation, owners: Sequence[OwnerClient], tenure: Tenure = unchallenged
    ) -> Self:
        """Make the coordinator of a table that is to be kept up by it."""
        committers = Committers(location, now_millis)
        return cls(
            owners,
            committers,
            now_millis,
            timer=DebouncedTimer(),
            maintenance=TableMaintenance(location.open(), committers.schema, now_millis),
            queue=CommitQueue.of_table(location.fingerprint),
            precedence=Precedence(location.open()),
            tenure=tenure,
        )

    def ping(self) -> None:
        """Answer."""

    def stats(self) -> CoordinatorStats:
        """Count for people and metrics."""
        return CoordinatorStats(
            pid=os.getpid(),
            owners=len(self._owners),
            users=len(self._committers),
            prepared_again=self._rounds.prepared_again,
        )

    def begin(self, user: str, alone: bool = False) -> SessionId:
        """Begin a new writer of the commit user; those before it are fenced, in any process.

        Args:
            alone: as `WriterFencing.begin` takes it.
        """
        return self._fencing.begin(user, alone)

    def last_identifier(self, user: str) -> int | None:
        """Find the newest identifier the user committed, or None."""
        with self._lock:
            return self._committers.for_user(user).committed_identifier()

    def committed(self, user: str, name: CommitName) -> CommitOutcome | None:
        """Find the outcome of a commit made before, or None where it was not made.

        Raises:
            CommitUnknownError: the snapshots that would tell have expired.
        """
        with self._lock:
            known = self._known(user, name)
        self._complete(known)
        return known

    def commit(self, request: CommitRequest) -> CommitOutcome:
        """Commit a session once; repeating the request changes no row.

        A commit that is repeated makes no second APPEND snapshot. It may publish compactions: a
        coordinator that was killed between the two owes them to the table.

        Raises:
            CommitFencedError: a newer writer of the user has begun.
            LostBatchesError: owners restarted; push again, then repeat the request.
            CommitConflictError: another commit contradicts this one; nothing was committed.
            CommitUnknownError: whether it is committed is not known.
        """
        table = self._committers.table
        about = spans.span("coordinate", table=table, session=request.session)
        with about, self._meter.timed(TABLE_COMMIT_SECONDS, table):
            try:
                return self._commit(request)
            except Exception:
                self._meter.count(TABLE_COMMIT_FAILURES_TOTAL, 1, table)
                raise

    def _commit(self, request: CommitRequest) -> CommitOutcome:
        session = request.session
        with self._lock:
            known = self._known(session.user, request.name)
            if known is not None:
                self.abort(session)
            else:
                try:
                    outcome, conflicting = self._publish(request)
                except CommitFencedError:  # `latest` is not to show what will not be committed
                    with suppress(PkrayError):
                        self.abort(session)
                    raise
        if known is not None:
            self._complete(known)
            return known
        if conflicting:  # what the commit promised of them is still to be done
            self._commit_compactions(_buckets_of(conflicting))
        self._keep_up(outcome)
        return outcome

    def overwrite(self, request: OverwriteRequest) -> CommitOutcome:
        """Put files in the place of all that is in some partitions, once.

        What other sessions have pushed is not touched: it comes on top when they commit. Where it
        was not answered, see whether it is `committed`; if not, write other files and call again
        with this name.

        Raises:
            CommitConflictError: nothing was committed.
            CommitUnknownError: whether it is committed is not known.
        """
        outcome = self._overwrite(request)
        self._keep_up(outcome)
        return outcome

    def abort(self, session: SessionId) -> None:
        """Drop a session that was not committed."""
        gather([owner.abort.submit(session) for owner in self._owners])

    def compact(self, selection: BucketSelection) -> CommitOutcome:
        """Compact buckets while writers go on; no snapshot where nothing was to be done."""
        made = CommitOutcome(None, new=False)
        for _ in range(_ROUNDS):
            begun = gather([owner.compact.submit(selection) for owner in self._owners])
            outcome = self._commit_compactions(selection)
            made = outcome if outcome.snapshot is not None else made
            if not any(begun) or (selection.full and outcome.snapshot is not None):
                break
        return made

    def commit_finished(self, wait: bool = False) -> None:
        """Commit compactions that have finished.

        Args:
            wait: for those that run.
        """
        answers = gather([owner.compactions.submit(wait) for owner in self._owners])
        if any(finished for finished, _ in answers):
            self._commit_compactions(None)
        elif any(pending for _, pending in answers):
            self.watch()

    def watch(self) -> None:
        """Look for finished compactions a little later."""
        if self._timer is not None:
            self._timer.set(_COMMIT_SECONDS, self.commit_finished)

    def close(self) -> None:
        """Commit nothing more by itself."""
        if self._timer is not None:
            self._timer.close()
        if self._maintenance is not None:
            self._maintenance.close()

    def _publish(self, request: CommitRequest) -> tuple[CommitOutcome, list[CommitMessage]]:
        session = request.session
        self._fencing.check_not_fenced(session)
        committer = self._committers.for_user(session.user)
        generation = self._fencing.fenced_by(session)
        return self._rounds.run(request, committer, generation, seen=True)

    def _overwrite(self, request: OverwriteRequest) -> CommitOutcome:
        user, messages = request.user, request.messages
        with self._lock:
            known = self._known(user, request.name)
            if known is not None:
                return known
            committer = self._committers.for_user(user)
            committer.check_files_exist(messages)
            self._tenure()()
            result = committer.overwrite(
                request.name,
                messages,
                request.replaced,
                read_at=request.read_at,
                properties=request.properties,
            )
            if result.append is not None:
                # Not its hash files: assigners must see that buckets were given anew.
                session, done = SessionId(user, 0), Acknowledgement(result.append.id)
                gather([owner.acknowledge.submit(session, done) for owner in self._owners])
            return CommitOutcome(result.append, new=result.new)

    def _complete(self, known: CommitOutcome | None) -> None:
        """Compact what a commit made before was to compact, where it was killed in between."""
        if (
            known is not None
            and known.snapshot is not None
            and known.snapshot.commit_kind == APPEND
        ):
            self._commit_compactions(_NO_BUCKETS)

    def _keep_up(self, outcome: CommitOutcome) -> None:
        """Expire what is old. The commit has happened: nothing here makes it fail."""
        maintenance = self._maintenance
        if maintenance is None or not outcome.new or outcome.snapshot is None:
            return
        if not self._maintenance_lock.acquire(blocking=False):
            return
        try:
            old = maintenance.after_commit(outcome.snapshot.id)
            if old:
                identifier = (self.last_identifier(self._expiry_user) or 0) + 1
                emptied = ExactPartitions(frozenset(old))
                self._overwrite(OverwriteRequest(self._expiry_user, identifier, (), emptied))
        except Exception as error:
            _log.warning("partitions are not expired: %s; the next check tries again", error)
        finally:
            self._maintenance_lock.release()

    def _commit_compactions(self, selection: BucketSelection | None) -> CommitOutcome:
        outcome = self._try_compactions(selection)
        self._keep_up(outcome)
        return outcome

    def _try_compactions(self, selection: BucketSelection | None) -> CommitOutcome:
        session = self.begin(self._compact_user)
        with self._lock:
            committer = self._committers.for_user(self._compact_user, ignore_empty=True)
            newest = committer.committed_identifier()
            request = CommitRequest(
                session=session,
                name=0 if newest is None else newest + 1,
                compaction=selection or _NO_BUCKETS,
            )
            return self._rounds.run(request, committer)[0]

    def _known(self, user: str, name: CommitName) -> CommitOutcome | None:
        committer = self._committers.for_user(user)
        identifier = committer.find(name)
        if identifier is not None:
            return CommitOutcome(committer.snapshot_of(identifier), new=False)
        if isinstance(name, CommitToken) and name.since < self._began:
            # A coordinator before this one may have been asked for it.
            committer.check_remembered(name)
        return None


def _buckets_of(messages: Sequence[CommitMessage]) -> BucketSelection:
    return BucketSelection(
        full=False,
        partitions=frozenset(message.partition for message in messages),
        buckets=frozenset(message.bucket for message in messages),
    )
