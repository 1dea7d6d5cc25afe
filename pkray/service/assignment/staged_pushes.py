"""Rows of tasks whose keys cross partitions: placed when it is known which attempts count.

Where a row goes depends on the rows before, and which rows of tasks come, and in which order, is
known at the commit alone. Until then the table's assigner keeps them aside; then it places those
that count, in the order of their sources, and sends them on as one writer's.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pkray.errors import LostBatchesError
from pkray.schema.table_schema import TableSchema
from pkray.service.assignment.open_sessions import OpenSessions
from pkray.service.calls import OwnerClient
from pkray.service.client.dynamic_client import KeyClient
from pkray.service.client.pusher import Pusher, pushing
from pkray.service.handles.handle import Pending
from pkray.service.protocol import (
    ASSIGNER,
    DRIVER,
    Attempts,
    Push,
    PushReport,
    RoutedBatch,
    SessionId,
    first_push,
)
from pkray.service.staging import StagingArea


class StagingPusher(Pusher):
    """A task's pusher that sends everything to the assigner."""

    def __init__(self, schema: TableSchema, owners: Sequence[OwnerClient], first: Push) -> None:
        def send(owner: int, push: Push, batch: RoutedBatch) -> Pending[None]:
            return owners[owner].stage.submit(push, batch)

        super().__init__(schema, len(owners), send, first)

    def push_checked(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows
        self._deliver({ASSIGNER: RoutedBatch(batch, ())})


@dataclass
class _Staged:
    """The batches that one session's tasks left.

    Args:
        schema_id, schema_digest: of the rows, as of `Push`.
        is_placing: it has begun to be sent on.
        report: what was sent on.
    """

    area: StagingArea
    schema_id: int
    schema_digest: str | None
    is_placing: bool = False
    report: PushReport | None = None


class StagedPushes:
    """Thread-safe.

    Args:
        directory: on the local disk, for what is beyond the memory limit.
        memory_limit: bytes of rows in memory, of each session.
        schema: that of an id and digest.
        peers: all owners of the table.
    """

    def __init__(
        self,
        directory: str,
        memory_limit: int,
        schema: Callable[[int, str | None], TableSchema],
        peers: Callable[[], Sequence[OwnerClient]],
    ) -> None:
        self._directory = directory
        self._memory_limit = memory_limit
        self._schema = schema
        self._peers = peers
        self._open: OpenSessions[_Staged] = OpenSessions()
        self._lock = threading.Lock()

    def stage(self, push: Push, batch: RoutedBatch) -> None:
        """Keep a task's batch, once however often it is delivered.

        Raises:
            LostBatchesError: an earlier batch of the attempt is not here.
            CommitFencedError: the session has ended.
        """
        with self._lock:
            staged = self._open.get(push.session) or self._begin(push)
            staged.area.put((push.source, push.attempt), push.index, batch)

    def place(self, session_id: SessionId, attempts: Attempts) -> PushReport:
        """Place the rows of these attempts and push them; what was pushed.

        Raises:
            LostBatchesError: not all of them are here any more: push again.
            SchemaChangedError: the table has another schema of the id that they came with.
        """
        with self._lock:
            staged = self._open.get(session_id)
            if staged is not None and staged.report is not None:
                return staged.report
            lost = [
                source
                for source, (attempt, count) in attempts.items()
                if staged is None or staged.area.count((source, attempt)) != count
            ]
            if lost or (staged is not None and staged.is_placing):
                raise LostBatchesError(
                    f"the owner no longer holds every batch of sources {sorted(lost)}: it, or one "
                    "that it had sent rows to, restarted; push them again",
                    sources=sorted(lost),
                )
            if staged is None:
                return PushReport(DRIVER, 0, 0, {})
            staged.is_placing = True
        staged.report = self._push(session_id, staged, attempts)
        return staged.report

    def end(self, session_id: SessionId) -> None:
        """Drop the batches of a session that is committed or dropped."""
        with self._lock:
            self._clear(self._open.get(session_id))
            self._open.end(session_id)

    def forget(self, session_id: SessionId) -> None:
        """Drop the batches of a session whose writer is gone, or pushes again."""
        with self._lock:
            self._clear(self._open.forget(session_id))

    def _begin(self, push: Push) -> _Staged:
        rivals = {other: self._open.get(other) for other in self._open.for_user(push.session.user)}
        for ended in self._open.take_over(push.session):
            self._clear(rivals[ended])
        name = f"{push.session.generation}-{push.session.epoch}"
        area = StagingArea(f"{self._directory}/{name}", self._memory_limit)
        return self._open.begin(push.session, _Staged(area, push.schema_id, push.schema_digest))

    @staticmethod
    def _clear(staged: _Staged | None) -> None:
        if staged is not None:
            staged.area.clear()

    def _push(self, session_id: SessionId, staged: _Staged, attempts: Attempts) -> PushReport:
        peers = self._peers()
        schema = self._schema(staged.schema_id, staged.schema_digest)
        first, client = first_push(schema, session_id), KeyClient(schema, peers)
        pusher = Pusher(schema, len(peers), pushing(peers), first, client)
        for batch in _batches(staged.area, attempts):
            pusher.push_checked(batch)
        return pusher.finish()


def _batches(area: StagingArea, attempts: Attempts) -> Iterator[pa.RecordBatch]:
    for source in sorted(attempts):
        for batch in area.take((source, attempts[source][0])):
            yield batch.rows
