"""A writer in the user's own process."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TypeVar

import pyarrow as pa

from pkray.commit.commit_name import (
    CommitName,
    CommitToken,
    checked_identifier,
    checked_watermark,
)
from pkray.errors import (
    CommitConflictError,
    CommitUnknownError,
    LostBatchesError,
    ServiceError,
    ServiceUnavailableError,
    TableError,
    WriterClosedError,
)
from pkray.format.snapshot import Snapshot
from pkray.schema import TableSchema
from pkray.service.dynamic.clients import dynamic_client
from pkray.service.handle import Handle, Pending
from pkray.service.protocol import (
    DRIVER,
    CommitOutcome,
    CommitRequest,
    Push,
    RoutedBatch,
    SessionId,
)
from pkray.service.pusher import Pusher, deletions, incoming

_ATTEMPTS = 8
_FIRST_WAIT_SECONDS = 0.2
T = TypeVar("T")


class TableWriter:
    """Upserts and deletes under a commit user; visible to others from `commit` on.

    Rows are in the owners' memory at once (`latest` lookups see them). What an owner loses by
    a restart before the commit is pushed again from here. Leaving the ``with`` block by an
    exception aborts; leaving it otherwise drops what was not committed.

    Args:
        keep: hold on to pushed batches until the commit, for owners that can be lost alone.
        fetch: a batch that is held on to.
    """

    def __init__(
        self,
        schema: TableSchema,
        coordinator: Handle,
        owners: Sequence[Handle],
        commit_user: str,
        *,
        keep: Callable[[RoutedBatch], object] | None,
        fetch: Callable[[object], RoutedBatch] | None = None,
    ) -> None:
        self.commit_user = commit_user
        self._schema = schema
        self._coordinator = coordinator
        self._owners = owners
        self._keep = keep
        self._fetch = fetch
        self._assigner = dynamic_client(schema, owners)
        self._unassigned: list[object] = []
        self._session: SessionId = coordinator.call("begin", commit_user)
        self._kept: dict[int, list[object]] = defaultdict(list)
        self._pusher = self._open_pusher()
        self._dirty = False
        self._unknown: CommitName | None = None
        self._is_closed = False

    def upsert(self, data: object) -> None:
        """Insert rows, or replace those of the same key.

        Args:
            data: pa.Table, RecordBatch, pandas DataFrame or a list of dicts.

        Raises:
            InputError: the rows do not fit the table; nothing of them was written.
            WriterClosedError: after `close`, as of all methods.
        """
        self._push(incoming(data, self._schema))

    def delete(self, keys: object) -> None:
        """Delete by key.

        Args:
            keys: as `upsert` takes rows; columns beside the key may be left out, but those of
                ``sequence.field``, which say whether the delete is newer than the row.

        Raises:
            InputError: the keys do not fit the table; nothing was deleted.
        """
        self._push(deletions(keys, self._schema))

    def write(self, data: object, row_kinds: str | None = None) -> None:
        """Write changes.

        Args:
            data: as `upsert` takes rows.
            row_kinds: names a column of '+I', '-U', '+U', '-D', beside those of the table or one
                of them. Default: all are upserts, or as ``rowkind.field`` says.

        Raises:
            InputError: the rows do not fit the table; nothing of them was written.
        """
        self._push(incoming(data, self._schema, row_kinds))

    def commit(
        self,
        commit_identifier: int | None = None,
        *,
        full_compact: bool = False,
        watermark: int | None = None,
    ) -> Snapshot | None:
        """Make everything since the last commit visible, once.

        Args:
            commit_identifier: names the commit together with the commit user; an identifier at
                or below the user's newest changes nothing and what was written is dropped.
                Default: the newest plus one as it happens, which no other commit has.
            full_compact: also compact every bucket into one sorted run.
            watermark: event time in epoch milliseconds, kept in the snapshot.

        Returns:
            The snapshot; for an identifier committed before, the one it made (None when that
            has expired).

        Raises:
            OptionError: an identifier or watermark that is no whole number of 64 bits.
            CommitFencedError: a newer writer of the commit user took over.
            CommitConflictError: nothing was committed; write again.
            CommitUnknownError: whether it happened is not known: commit again as before, or
                abort. Until then the writer takes no rows.
        """
        self._require_open()
        name = self._name(commit_identifier)
        event_time = checked_watermark(watermark)

        def attempt() -> CommitOutcome:
            request = CommitRequest(
                session=self._session,
                name=name,
                reports=(self._pusher.finish(),),
                full_compact=full_compact,
                watermark=event_time,
            )
            outcome: CommitOutcome = self._coordinator.call("commit", request)
            return outcome

        try:
            outcome = self._persist(attempt)
        except (CommitUnknownError, ServiceUnavailableError):
            self._unknown = name
            raise
        except CommitConflictError:
            self._unknown = None
            raise
        self._renew()
        return outcome.snapshot

    def abort(self) -> None:
        """Drop everything since the last commit."""
        if self._dirty or self._unknown is not None:
            self._coordinator.call("abort", self._session)
            self._renew()

    def close(self) -> None:
        """Drop what was not committed, and take nothing more; a second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            with suppress(ServiceUnavailableError, TableError):  # what is gone holds nothing
                self.abort()

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _name(self, identifier: int | None) -> CommitName:
        """The commit's name; that of the commit before, if it is to be repeated."""
        unknown = self._unknown
        if identifier is None and isinstance(unknown, CommitToken):
            return unknown
        name: CommitName
        if identifier is None:
            name = CommitToken(str(uuid.uuid4()), time.time_ns() // 1_000_000)
        else:
            name = checked_identifier(identifier)
        if name != unknown:
            self._require_known()
        return name

    def _require_known(self) -> None:
        """No rows are taken that a repeated commit, once found done, would drop."""
        if self._unknown is None:
            return
        identifier = "" if isinstance(self._unknown, CommitToken) else self._unknown
        raise CommitUnknownError(
            f"whether the last commit of {self.commit_user!r} happened is not known: call "
            f"commit({identifier}) again before anything else, or abort() to drop what it may "
            "not have committed",
            user=self.commit_user,
        )

    def _push(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Returns when the owners have the rows: lookups see them from then on."""
        self._require_open()
        self._require_known()
        for batch in batches:
            self._dirty = True
            if self._assigner is not None and self._keep is not None:
                self._unassigned.append(self._keep(RoutedBatch(batch, ())))
            self._heal(partial(self._pusher.push_checked, batch))
        self._heal(self._pusher.settle)

    def _require_open(self) -> None:
        if self._is_closed:
            raise WriterClosedError(
                f"the writer of commit user {self.commit_user!r} is closed: open another with "
                "table.open_writer()",
                user=self.commit_user,
            )

    def _heal(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (LostBatchesError, ServiceUnavailableError):
            if self._keep is None:
                raise
            self._persist(self._push_again)

    def _persist(self, work: Callable[[], T]) -> T:
        """Repeat work whose owners or coordinator were lost, pushing again what they held."""
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
            self._next_session()
            self._pusher.move_to(self._session)
        pending: list[Pending] = []
        for owner, batches in self._kept.items():
            for index, batch in enumerate(batches):
                push = Push(self._session, DRIVER, 0, index, self._schema.id)
                pending.append(self._owners[owner].submit("push", push, batch))
        for one in pending:
            one.result()

    def _assign_again(self) -> None:
        """In a new session, as an owner may have forgotten what it had assigned in this one."""
        assert self._fetch is not None
        self._next_session()
        self._pusher = self._open_pusher()
        for kept in self._unassigned:
            self._pusher.push_checked(self._fetch(kept).rows)
        self._pusher.settle()

    def _next_session(self) -> None:
        self._coordinator.call("abort", self._session)
        self._session = self._session.next()

    def _send(self, owner: int, push: Push, batch: RoutedBatch) -> Pending:
        carried: object = batch
        if self._keep is not None and self._assigner is None:
            carried = self._keep(batch)
            self._kept[owner].append(carried)
        return self._owners[owner].submit("push", push, carried)

    def _open_pusher(self) -> Pusher:
        return Pusher(
            self._schema,
            len(self._owners),
            self._send,
            self._session,
            DRIVER,
            0,
            self._assigner,
        )

    def _renew(self) -> None:
        self._session = self._session.next()
        self._kept.clear()
        self._unassigned.clear()
        self._pusher = self._open_pusher()
        self._dirty = False
        self._unknown = None
