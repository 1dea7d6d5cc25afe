"""The driver's side of a distributed push: opens it, ships a target to tasks, commits."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Self

import msgspec
import pyarrow as pa

from pkray import spans
from pkray.arguments.facade import checked_class
from pkray.errors import PkrayError, ServiceError
from pkray.format.snapshot import Snapshot
from pkray.options import DYNAMIC
from pkray.schema.table_schema import TableSchema
from pkray.service.calls import OwnerClient
from pkray.service.client import spool
from pkray.service.client.dynamic_client import DynamicClient, KeyClient, dynamic_client
from pkray.service.client.pusher import Pusher, PushTarget, Send, pushing
from pkray.service.client.table_service import TableService
from pkray.service.handles.handle import Pending, gather
from pkray.service.protocol import (
    ASSIGNER,
    DRIVER,
    Attempts,
    CommitOutcome,
    CommitRequest,
    Push,
    PushReport,
    RoutedBatch,
    SessionId,
    first_push,
)
from pkray.service.timing.pulse import Pulse

UNASSIGNED = -1
"""In the place of an owner: rows that wait for a dynamic bucket."""


@checked_class
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

    def first(self, source: int, attempt: int) -> Push:
        """Name an attempt's first batch."""
        return first_push(self._schema, self._session, source, attempt)

    @property
    def stages_rows(self) -> bool:
        return False

    def path(self, source: int, attempt: int, owner: int) -> str:
        return f"{self.directory}/{source}-{attempt}-{owner}.arrow"

    def open(self, source: int, attempt: int) -> Pusher:
        """Open a pusher for an attempt of a task: see `PushTarget`."""
        kind = _SpoolPusher if self._schema.core.bucket != DYNAMIC else _UnassignedSpool
        return kind(self, self._schema, self._owners, self.first(source, attempt))

    def assigner(self, owners: Sequence[OwnerClient]) -> DynamicClient | None:
        """Make the client that asks for buckets, where the table has dynamic ones."""
        return dynamic_client(self._schema, owners)

    def pusher(self, send: Send, first: Push, assigner: DynamicClient) -> Pusher:
        """Make a pusher for the rows that an attempt had left."""
        return Pusher(self._schema, self._owners, send, first, assigner)

    def unassigned(self, report: PushReport) -> Iterator[pa.RecordBatch]:
        """Read the rows of an attempt on a table with dynamic buckets."""
        if UNASSIGNED in report.batches:
            for batch in spool.read_spool(self.path(report.source, report.attempt, UNASSIGNED)):
                yield batch.rows

    def clear(self, reports: Sequence[PushReport]) -> None:
        """Remove what `unassigned` yields."""
        for report in reports:
            spool.remove(self.path(report.source, report.attempt, UNASSIGNED))


class _SpoolPusher(Pusher):
    def __init__(self, target: SpoolTarget, schema: TableSchema, owners: int, first: Push) -> None:
        super().__init__(schema, owners, self._spool, first)
        self._target = target
        self._files: dict[int, spool.SpoolWriter] = {}

    def _spool(self, owner: int, push: Push, batch: RoutedBatch) -> Pending[None] | None:
        if owner not in self._files:
            path = self._target.path(push.source, push.attempt, owner)
            self._files[owner] = spool.SpoolWriter(path)
        self._files[owner].append(batch)
        return None

    def finish(self) -> PushReport:
        for file in self._files.values():
            file.close()
        return super().finish()


class _UnassignedSpool(_SpoolPusher):
    """Tasks cannot ask owners for buckets: the rows wait for the driver, which shares a process
    with the owners."""

    def push_checked(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows
        self._spool(UNASSIGNED, self._first, RoutedBatch(batch, ()))

    def finish(self) -> PushReport:
        report = super().finish()
        return msgspec.structs.replace(report, batches=dict.fromkeys(self._files, 1))


@checked_class
class PushSession:
    """One distributed push under a commit name.

    Args:
        committed: the outcome when the name was committed before: nothing is left to do.
    """

    def __init__(
        self,
        service: TableService,
        session: SessionId,
        identifier: int,
        target: PushTarget,
        committed: CommitOutcome | None,
    ) -> None:
        self._table = service.table
        self._coordinator = service.coordinator
        self._owners = service.owners
        self._session = session
        self._identifier = identifier
        self._target = target
        self._committed = committed
        self._pulse = Pulse(self._beat, service.writers.beat_seconds, "pkray-heartbeat")
        if committed is None:
            self._pulse.start()

    @classmethod
    def open(
        cls, service: TableService, schema: TableSchema, user: str, identifier: int, alone: bool
    ) -> Self:
        """Begin a writer of the commit user, which nobody else has where it is ``alone``."""
        known = service.coordinator.committed(user, identifier)
        session = service.coordinator.begin(user, alone)
        return cls(service, session, identifier, service.push_target(session, schema), known)

    def __repr__(self) -> str:
        state = "committed" if self.is_committed else "open"
        return f"PushSession({self._session.user!r}, {self._identifier}, {state})"

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
        with spans.span("commit", table=self._table, session=self._session):
            return self._commit(reports, watermark)

    def _commit(self, reports: Sequence[PushReport], watermark: int | None) -> Snapshot | None:
        if isinstance(self._target, SpoolTarget):
            spooled, reports = reports, self._hand_over(self._target, reports)
        if self._target.stages_rows:
            reports = [self._place_staged(reports)]
        request = CommitRequest(
            session=self._session,
            name=self._identifier,
            reports=tuple(reports),
            watermark=watermark,
        )
        outcome = self._coordinator.commit(request)
        self._pulse.stop()
        if isinstance(self._target, SpoolTarget):
            self._target.clear(spooled)
        return outcome.snapshot

    def abort(self) -> None:
        """Drop everything that was pushed."""
        self._pulse.stop()
        self._coordinator.abort(self._session)

    def _beat(self) -> bool:
        """Have owners hold the session on; whether that is still of use."""
        try:
            pending = [owner.heartbeat.submit(self._session) for owner in self._owners]
            for each in pending:
                with suppress(ServiceError):
                    each.result()
        except ServiceError:
            return True
        except PkrayError:  # as the commit says
            return False
        return True

    def _place_staged(self, reports: Sequence[PushReport]) -> PushReport:
        attempts: Attempts = {
            report.source: (report.attempt, report.batches[ASSIGNER])
            for report in reports
            if report.batches
        }
        return self._owners[ASSIGNER].place_staged(self._session, attempts)

    def _hand_over(
        self, target: SpoolTarget, reports: Sequence[PushReport]
    ) -> Sequence[PushReport]:
        assigner = target.assigner(self._owners)
        if isinstance(assigner, KeyClient):  # where a row goes depends on those before
            return [self._push(target, in_order(reports), target.first(DRIVER, 0), assigner)]
        if assigner is not None:
            return [
                self._push(target, [each], target.first(each.source, each.attempt), assigner)
                for each in reports
            ]
        pending: defaultdict[int, list[Pending[None]]] = defaultdict(list)
        for report in reports:
            for owner, count in report.batches.items():
                path = target.path(report.source, report.attempt, owner)
                first = target.first(report.source, report.attempt)
                pending[owner].append(self._owners[owner].take_over.submit(first, path, count))
        for answers in pending.values():
            gather(answers)
        return reports

    def _push(
        self,
        target: SpoolTarget,
        reports: Sequence[PushReport],
        first: Push,
        assigner: DynamicClient,
    ) -> PushReport:
        """Push the rows that attempts had left, as those of one attempt."""
        pusher = target.pusher(pushing(self._owners), first, assigner)
        for report in reports:
            for rows in target.unassigned(report):
                pusher.push_checked(rows)
        return pusher.finish()


def in_order(reports: Sequence[PushReport]) -> list[PushReport]:
    """Sort reports into the order in which tasks' rows are taken."""
    return sorted(reports, key=lambda report: report.source)
