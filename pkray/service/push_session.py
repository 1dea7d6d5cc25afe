"""The driver's side of a distributed push: opens it, ships a target to tasks, commits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

from pkray.format.snapshot import Snapshot
from pkray.schema import TableSchema
from pkray.service import spool
from pkray.service.handle import Handle, Pending, gather
from pkray.service.protocol import (
    CommitOutcome,
    CommitRequest,
    Push,
    PushReport,
    RoutedBatch,
    SessionId,
)
from pkray.service.pusher import Pusher


class PushTarget(Protocol):
    """Small and picklable: what a task needs to push."""

    def open(self, source: int, attempt: int) -> Pusher: ...


class SpoolTarget:
    """Tasks of this machine leave their rows in files that the owners then take over.

    Args:
        directory: a local directory that tasks and owners share.
    """

    def __init__(
        self, directory: str, schema: TableSchema, owners: int, session: SessionId
    ) -> None:
        self.directory = directory
        self._schema = schema
        self._owners = owners
        self._session = session

    def path(self, source: int, attempt: int, owner: int) -> str:
        return f"{self.directory}/{source}-{attempt}-{owner}.arrow"

    def open(self, source: int, attempt: int) -> Pusher:
        return _SpoolPusher(self, self._schema, self._owners, self._session, source, attempt)


class _SpoolPusher(Pusher):
    def __init__(
        self,
        target: SpoolTarget,
        schema: TableSchema,
        owners: int,
        session: SessionId,
        source: int,
        attempt: int,
    ) -> None:
        super().__init__(schema, owners, self._spool, session, source, attempt)
        self._target = target
        self._files: dict[int, spool.SpoolWriter] = {}

    def _spool(self, owner: int, push: Push, batch: RoutedBatch) -> Pending | None:
        if owner not in self._files:
            path = self._target.path(push.source, push.attempt, owner)
            self._files[owner] = spool.SpoolWriter(path)
        self._files[owner].append(batch)
        return None

    def finish(self) -> PushReport:
        for file in self._files.values():
            file.close()
        return super().finish()


class PushSession:
    """One distributed push under a commit name.

    Args:
        committed: the outcome when the name was committed before: nothing is left to do.
    """

    def __init__(
        self,
        coordinator: Handle,
        owners: Sequence[Handle],
        session: SessionId,
        identifier: int,
        target: PushTarget,
        committed: CommitOutcome | None,
    ) -> None:
        self._coordinator = coordinator
        self._owners = owners
        self._session = session
        self._identifier = identifier
        self._target = target
        self._committed = committed

    @property
    def is_committed(self) -> bool:
        return self._committed is not None

    @property
    def committed(self) -> Snapshot | None:
        return self._committed.snapshot if self._committed else None

    def target(self) -> PushTarget:
        return self._target

    def commit(
        self, reports: Sequence[PushReport], *, watermark: int | None = None
    ) -> Snapshot | None:
        """Commit what the reported attempts pushed, and nothing else.

        Raises:
            LostBatchesError: an owner restarted: push everything again in a new session.
        """
        if isinstance(self._target, SpoolTarget):
            self._hand_over(self._target, reports)
        request = CommitRequest(
            session=self._session,
            identifier=self._identifier,
            reports=tuple(reports),
            watermark=watermark,
        )
        outcome: CommitOutcome = self._coordinator.call("commit", request)
        return outcome.snapshot

    def abort(self) -> None:
        """Drop everything that was pushed."""
        self._coordinator.call("abort", self._session)

    def _hand_over(self, target: SpoolTarget, reports: Sequence[PushReport]) -> None:
        pending = defaultdict(list)
        for report in reports:
            for owner, count in report.batches.items():
                path = target.path(report.source, report.attempt, owner)
                push = Push(self._session, report.source, report.attempt, 0)
                pending[owner].append(self._owners[owner].submit("take_over", push, path, count))
        for answers in pending.values():
            gather(answers)
