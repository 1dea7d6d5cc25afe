"""Remember what a writer pushed since its last commit, and push it again where owners lose it."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import pyarrow as pa
from msgspec.structs import replace

from pkray import errors
from pkray.schema.table_schema import TableSchema
from pkray.service import protocol
from pkray.service.client.dynamic_client import dynamic_client
from pkray.service.client.pusher import Pusher
from pkray.service.client.table_service import TableService
from pkray.service.handles.handle import Pending
from pkray.service.timing.pulse import Pulse

_ATTEMPTS = 8
"""Times that work is begun while owners restart; the waits between them add up to 16 s."""
_FIRST_WAIT_SECONDS = 0.2
_REPEATED = 3
"""Repeated calls in whose time work that fails is begun again."""
_PATIENCE_SECONDS = 10.0
"""How long lookups wait for rows that are being pushed again."""
_KNOWN_SOON_SECONDS = 5.0
"""Ray says a second or two after an owner died that it did not answer: it may be back by then, and
is asked once more. One that hangs is known later, and holds up no other's heartbeat again."""
T = TypeVar("T")


@dataclass(frozen=True)
class _Pushed:
    """The batches and tokens that owners have taken and given of a session."""

    session: protocol.SessionId
    batches: Mapping[int, int] = field(default_factory=dict)
    tokens: Mapping[int, str] = field(default_factory=dict)

    def expected(self, owner: int) -> protocol.Holding:
        return protocol.Holding(self.session, self.batches.get(owner, 0), self.tokens.get(owner))

    def is_lost(self, owner: int, held: protocol.Holding) -> bool:
        """Whether an owner holds less than it took."""
        expected = self.expected(owner)
        return held.batches < expected.batches or expected.token not in (None, held.token)


class WriterSession:
    """One session after the other of a new writer of a commit user; those before it are fenced.

    While owners hold rows, a heartbeat has them hold these on, and finds out which owners have
    lost some: what is held on to is pushed again.

    Args:
        alone: nobody else has the commit user.

    Attributes:
        lock: held while rows are pushed or committed.
        is_in_doubt: the session may be committed; nothing of it is pushed again by itself.
        restored: how often it was begun to push rows again.
    """

    def __init__(
        self, schema: TableSchema, service: TableService, commit_user: str, alone: bool = False
    ) -> None:
        self._schema = schema
        self._coordinator = service.coordinator
        self._owners = service.owners
        self._retain_batch = service.retain_batch
        self._load_batch = service.load_batch
        self._assigner = dynamic_client(schema, service.owners)
        self._unassigned: list[protocol.KeptBatch] = []
        self.id = service.coordinator.begin(commit_user, alone)
        self._kept: dict[int, list[protocol.KeptBatch]] = defaultdict(list)
        self._pusher = self._open_pusher()
        self._pushed = _Pushed(self.id)
        self.has_rows = False
        self._is_shared = False
        self.lock = threading.RLock()
        self.is_in_doubt = False
        self.restored = 0
        self._is_restoring = False
        self._is_abandoned = False
        self._writers = service.writers
        self._writers.add(self)
        self._pulse = Pulse(self._beat, self._writers.beat_seconds, "pkray-heartbeat")

    def push(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Send batches, and return when the owners have the rows: lookups see them from then on."""
        with self.lock:
            for batch in batches:
                self.has_rows = True
                self._pulse.start()
                if self._assigner is not None and self._retain_batch is not None:
                    self._unassigned.append(self._retain_batch(protocol.RoutedBatch(batch, ())))
                self._heal(partial(self._pusher.push_checked, batch))
            self._heal(self._pusher.settle)
            self._note()

    def share(self) -> protocol.SessionId:
        """Have all owners hold this session on, as others push to it too; name it."""
        with self.lock:
            self._is_shared = True
            self._pulse.start()
            return self.id

    def change_schema(self, schema: TableSchema) -> None:
        """Go on with rows of another schema; nothing was pushed since the last commit."""
        with self.lock:
            self._schema = schema
            self._assigner = dynamic_client(schema, self._owners)
            self._pusher = self._open_pusher()

    def report(self) -> protocol.PushReport:
        """Wait until every owner has its batches, and say what was pushed."""
        return self._pusher.finish()

    def persist(self, work: Callable[[], T]) -> T:
        """Repeat work whose owners or coordinator were lost, pushing again what they held; with
        the lock.

        Raises:
            LostBatchesError, ServiceUnavailableError: still, or nothing is held on to.
        """
        wait, lost = _FIRST_WAIT_SECONDS, 0
        end = time.monotonic() + _REPEATED * self._coordinator.limits.patience()
        for left in range(_ATTEMPTS, 0, -1):
            try:
                return work()
            except (errors.LostBatchesError, errors.ServiceUnavailableError) as error:
                if self._retain_batch is None or left == 1 or time.monotonic() > end:
                    raise
                lost += isinstance(error, errors.LostBatchesError)
            time.sleep(wait)
            wait = min(wait * 2, 5.0)
            try:
                self._push_again(anew=lost > 1)
            except errors.ServiceError:
                continue
        raise AssertionError("unreachable")

    def abort(self) -> None:
        """Drop what was pushed, and begin the next."""
        with self.lock:
            self._coordinator.abort(self.id)
            self.renew()

    def stop(self) -> None:
        """Send no more heartbeats: owners let go of what is not committed after a while."""
        self._pulse.stop()
        self._writers.remove(self)

    def abandon(self) -> None:
        """Expect nothing more of owners, and send no more heartbeats: nobody holds the writer.

        Takes no lock: garbage is collected wherever a thread happens to be, perhaps within one.
        """
        self._is_abandoned = True

    def expected(self, owner: int) -> protocol.Holding | None:
        """Say what an owner is to hold by now; None where that is nothing.

        Raises:
            ServiceUnavailableError: it is being pushed again, and that takes long.
        """
        if self._is_abandoned:
            return None
        if self._is_restoring:
            with self._alone():
                pass
        expected = self._pushed.expected(owner)
        return expected if expected.batches or expected.token else None

    def restore(self) -> None:
        """Push again what owners have lost.

        Raises:
            LostBatchesError: nothing is held on to.
            CommitUnknownError: it may be committed.
            ServiceUnavailableError: somebody pushes or commits, or owners do not answer.
        """
        if self._is_abandoned:
            return
        with self._alone():
            try:
                lost = self._lost()
            except errors.CommitFencedError:  # its rows are gone for good, as its next call says
                self._pushed = _Pushed(self.id)
                self.stop()
                return
            if lost and self.is_in_doubt:
                raise errors.CommitUnknownError(
                    f"an owner lost rows that {self.id.user!r} wrote, and whether their commit "
                    "happened is not known: commit again as before, or abort",
                    user=self.id.user,
                )
            if lost and self._retain_batch is None:
                raise errors.LostBatchesError(
                    f"rows that {self.id.user!r} wrote since its last commit are lost: call "
                    "abort() of its writer, then write them again",
                    user=self.id.user,
                )
            if lost:
                self._restore(lost)

    def renew(self) -> None:
        """Begin the next: what was pushed is committed."""
        self.id = self.id.next()
        self._pushed = _Pushed(self.id)
        self._kept.clear()
        self._unassigned.clear()
        self._pusher = self._open_pusher()
        self.has_rows = self._is_shared = False

    def _heal(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (errors.LostBatchesError, errors.ServiceUnavailableError):
            if self._retain_batch is None:
                raise
            self.persist(self._push_again)

    def _beat(self) -> bool:
        """Have owners hold the session on; whether they hold any of it."""
        if self._is_abandoned or not self._targets:
            return False
        pushed = self._pushed
        try:
            lost = self._lost()
            if not lost or self._retain_batch is None or not self.lock.acquire(blocking=False):
                return True
            try:
                if pushed is self._pushed and not self.is_in_doubt:
                    self._restore(lost)
            finally:
                self.lock.release()
        except errors.ServiceError:
            return True
        except errors.PkrayError:  # as the writer's next call says
            return False
        return True

    @property
    def _targets(self) -> list[int]:
        """The owners that have, or are to have, something of the session."""
        if self._is_shared:
            return list(range(len(self._owners)))
        return sorted({*self._pusher.sent, *self._pusher.tokens})

    def _lost(self) -> list[int]:
        """The owners that hold less than they took, of those that answer."""
        pushed, begun = self._pushed, time.monotonic()
        lost, silent = self._ask(pushed, self._targets)
        if silent and time.monotonic() - begun < _KNOWN_SOON_SECONDS:
            lost += self._ask(pushed, silent)[0]
        return lost

    def _ask(self, pushed: _Pushed, owners: Sequence[int]) -> tuple[list[int], list[int]]:
        """Send heartbeats; the owners that hold less than they took, and those that are silent."""
        asked: list[tuple[int, Pending[protocol.Holding]]] = []
        lost: list[int] = []
        silent: list[int] = []
        for owner in owners:
            try:
                asked.append((owner, self._owners[owner].heartbeat.submit(pushed.session)))
            except errors.ServiceUnavailableError:
                silent.append(owner)
        for owner, pending in asked:
            try:
                if pushed.is_lost(owner, pending.result()):
                    lost.append(owner)
            except errors.ServiceUnavailableError:
                silent.append(owner)
        return lost, silent

    def _restore(self, lost: Sequence[int]) -> None:
        self._push_again(owners=lost)
        if self._lost():
            self._push_again(anew=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock.

        Raises:
            ServiceUnavailableError: others hold it for long.
        """
        if not self.lock.acquire(timeout=_PATIENCE_SECONDS):
            raise errors.ServiceUnavailableError(
                f"rows of {self.id.user!r} that an owner lost wait for {_PATIENCE_SECONDS:.0f} s "
                "to be pushed again, as the writer pushes or commits: try again",
                user=self.id.user,
            )
        try:
            yield
        finally:
            self.lock.release()

    def _note(self) -> None:
        """Note that owners have taken all that was sent, and have heartbeats hold it."""
        self._pushed = _Pushed(self.id, self._pusher.sent, self._pusher.tokens)
        self._pulse.start()  # it has ended if it beat before an owner had anything

    def _push_again(self, anew: bool = False, owners: Sequence[int] | None = None) -> None:
        """
        Args:
            anew: in a new session: owners may have ended this one, if it was committed and the
                table rolled back before that was answered.
            owners: to these only; default all.
        """
        self.restored += 1
        self._is_restoring = True
        try:
            self._pusher.drain()
            if self._assigner is not None:
                self._assign_again()
            else:
                self._send_again(self._kept if anew or owners is None else owners, anew)
            self._note()
        finally:
            self._is_restoring = False

    def _send_again(self, owners: Iterable[int], anew: bool) -> None:
        if anew:
            self._leave()
            self._pusher.move_to(self.id)
        pending: list[Pending[None]] = []
        first = protocol.first_push(self._schema, self.id)
        for owner in owners:
            for index, batch in enumerate(self._kept[owner]):
                push = replace(first, index=index)
                pending.append(self._owners[owner].push.submit(push, batch))
        for one in pending:
            one.result()

    def _assign_again(self) -> None:
        """In a new session, as an owner may have forgotten what it had assigned in this one."""
        assert self._load_batch is not None
        self._leave()
        self._pusher = self._open_pusher()
        for kept in self._unassigned:
            self._pusher.push_checked(self._load_batch(kept).rows)
        self._pusher.settle()

    def _leave(self) -> None:
        """Go on in the next, to which all is pushed again."""
        self._coordinator.abort(self.id)
        self.id = self.id.next()

    def _send(self, owner: int, push: protocol.Push, batch: protocol.RoutedBatch) -> Pending[None]:
        if self._retain_batch is None or self._assigner is not None:
            return self._owners[owner].push.submit(push, batch)
        kept = self._retain_batch(batch)
        self._kept[owner].append(kept)
        return self._owners[owner].push.submit(push, kept)

    def _open_pusher(self) -> Pusher:
        first = protocol.first_push(self._schema, self.id)
        return Pusher(self._schema, len(self._owners), self._send, first, self._assigner)
