"""What a writer has pushed since its last commit, and pushes again where owners lose it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa

from pkray.errors import LostBatchesError, ServiceError, ServiceUnavailableError
from pkray.schema import TableSchema
from pkray.service.dynamic.clients import dynamic_client
from pkray.service.handle import Handle, Pending
from pkray.service.protocol import DRIVER, Push, PushReport, RoutedBatch, SessionId
from pkray.service.pusher import Pusher

_ATTEMPTS = 8
_FIRST_WAIT_SECONDS = 0.2
T = TypeVar("T")


class WriterSession:
    """One session after the other of a new writer of a commit user; those before it are fenced.

    Args:
        keep: holds on to pushed batches until the commit, for owners that can be lost alone;
            None: what is lost is lost.
        fetch: a batch that is held on to.
    """

    def __init__(
        self,
        schema: TableSchema,
        coordinator: Handle,
        owners: Sequence[Handle],
        commit_user: str,
        keep: Callable[[RoutedBatch], object] | None,
        fetch: Callable[[object], RoutedBatch] | None,
    ) -> None:
        self._schema = schema
        self._coordinator = coordinator
        self._owners = owners
        self._keep = keep
        self._fetch = fetch
        self._assigner = dynamic_client(schema, owners)
        self._unassigned: list[object] = []
        self.id: SessionId = coordinator.call("begin", commit_user)
        self._kept: dict[int, list[object]] = defaultdict(list)
        self._pusher = self._open_pusher()
        self.has_rows = False

    def push(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Returns when the owners have the rows: lookups see them from then on."""
        for batch in batches:
            self.has_rows = True
            if self._assigner is not None and self._keep is not None:
                self._unassigned.append(self._keep(RoutedBatch(batch, ())))
            self._heal(partial(self._pusher.push_checked, batch))
        self._heal(self._pusher.settle)

    def report(self) -> PushReport:
        """Wait until every owner has its batches, and say what was pushed."""
        return self._pusher.finish()

    def persist(self, work: Callable[[], T]) -> T:
        """Repeat work whose owners or coordinator were lost, pushing again what they held.

        Raises:
            LostBatchesError, ServiceUnavailableError: still, or nothing is held on to.
        """
        wait, lost = _FIRST_WAIT_SECONDS, 0
        for left in range(_ATTEMPTS, 0, -1):
            try:
                return work()
            except (LostBatchesError, ServiceUnavailableError) as error:
                if self._keep is None or left == 1:
                    raise
                lost += isinstance(error, LostBatchesError)
            time.sleep(wait)
            wait = min(wait * 2, 5.0)
            try:
                self._push_again(anew=lost > 1)
            except ServiceError:
                continue
        raise AssertionError("unreachable")

    def abort(self) -> None:
        """Drop what was pushed, and begin the next."""
        self._coordinator.call("abort", self.id)
        self.renew()

    def renew(self) -> None:
        """Begin the next: what was pushed is committed."""
        self.id = self.id.next()
        self._kept.clear()
        self._unassigned.clear()
        self._pusher = self._open_pusher()
        self.has_rows = False

    def _heal(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (LostBatchesError, ServiceUnavailableError):
            if self._keep is None:
                raise
            self.persist(self._push_again)

    def _push_again(self, anew: bool = False) -> None:
        """
        Args:
            anew: in a new session: owners may have ended this one, if it was committed and the
                table rolled back before that was answered.
        """
        self._pusher.drain()
        if self._assigner is not None:
            self._assign_again()
            return
        if anew:
            self._leave()
            self._pusher.move_to(self.id)
        pending: list[Pending] = []
        for owner, batches in self._kept.items():
            for index, batch in enumerate(batches):
                push = Push(self.id, DRIVER, 0, index, self._schema.id, self._schema.digest)
                pending.append(self._owners[owner].submit("push", push, batch))
        for one in pending:
            one.result()

    def _assign_again(self) -> None:
        """In a new session, as an owner may have forgotten what it had assigned in this one."""
        assert self._fetch is not None
        self._leave()
        self._pusher = self._open_pusher()
        for kept in self._unassigned:
            self._pusher.push_checked(self._fetch(kept).rows)
        self._pusher.settle()

    def _leave(self) -> None:
        """Go on in the next, to which all is pushed again."""
        self._coordinator.call("abort", self.id)
        self.id = self.id.next()

    def _send(self, owner: int, push: Push, batch: RoutedBatch) -> Pending:
        carried: object = batch
        if self._keep is not None and self._assigner is None:
            carried = self._keep(batch)
            self._kept[owner].append(carried)
        return self._owners[owner].submit("push", push, carried)

    def _open_pusher(self) -> Pusher:
        owners, assigner = len(self._owners), self._assigner
        return Pusher(self._schema, owners, self._send, self.id, DRIVER, 0, assigner)
