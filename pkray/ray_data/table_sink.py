"""Datasets written to tables, in one commit each."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from ray.data.block import Block, BlockAccessor
from ray.data.datasource import Datasink, WriteResult

from pkray import spans
from pkray.arguments.facade import Label, checked
from pkray.errors import InputError, OptionError, ServiceError, StorageError
from pkray.format.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from pkray.metadata.schemas import TableIdentity
from pkray.ray_data.table_source import check_table
from pkray.rows.input import Missing
from pkray.service.client.push_batches import PUSH_ROWS, gathered
from pkray.service.protocol import PushReport

if TYPE_CHECKING:
    from ray.data._internal.execution.interfaces import TaskContext

    from pkray.service.client.push_session import PushSession
    from pkray.table.table import Table

_ATTEMPT_BITS = 62


@checked
def sink(
    table: Table,
    *,
    commit_user: Label | None = None,
    commit_identifier: int | None = None,
    row_kinds: str | None = None,
    missing: Missing = "error",
) -> TableSink:
    """Make what ``Dataset.write_datasink`` takes: it upserts a Dataset in one commit.

    ::

        ds.write_datasink(pkray.ray_data.sink(table))

    Tasks push their blocks to the table's owners; the driver commits the attempts that Ray Data
    reports, once. What other attempts pushed goes, be they killed or run twice. A sink is of one
    write.

    Args:
        commit_user, commit_identifier: the commit's name, both or neither; a name that was
            committed before changes nothing. Default: a name of its own, so that writing again
            writes the rows again.
        row_kinds: a column of '+I', '-U', '+U', '-D'; default all rows are upserts.
        missing: as `Table.open_writer` takes it.

    Raises:
        InputError: what is no table. While it is written: the rows do not fit the table; nothing
            was committed.
        OptionError: half of a commit's name.
        LostBatchesError: while it is written: an owner was lost with rows that no commit has;
            nothing was committed: write again, with another sink.
        TableReplacedError, TableNotFoundError: while it is written: the table was dropped.
    """
    check_table("sink", table)
    if (commit_user is None) != (commit_identifier is None):
        raise OptionError(
            "commit_user and commit_identifier name a commit together: give both, or neither",
            commit_user=commit_user,
            commit_identifier=commit_identifier,
        )
    user = commit_user or f"ray-data-{uuid.uuid4()}"
    identifier = BATCH_COMMIT_IDENTIFIER if commit_identifier is None else commit_identifier
    session = table._open_push(user, identifier, commit_user is None)
    return TableSink(table, session, row_kinds, missing)


class TableSink(Datasink[bytes | None]):
    """Upserts one Dataset into a table; made by `sink`.

    Attributes:
        snapshot: the commit's, once it is written; None also where nothing was committed, or its
            snapshot has expired.
    """

    def __init__(
        self, table: Table, session: PushSession, row_kinds: str | None, missing: Missing
    ) -> None:
        self._location = table.location
        self._target = None if session.is_committed else session.target()
        self._row_kinds = row_kinds
        self._missing = missing
        self._session: PushSession | None = session
        self._is_used = False
        with spans.span("write", table=table.name):
            self._envelope = spans.envelope()
        self.snapshot: Snapshot | None = session.committed

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what the driver alone has: the session that commits."""
        return {**vars(self), "_session": None}

    def get_name(self) -> str:
        """Name the write in Ray Data's plans."""
        return f"pkray {self._location.name}"

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Refuse a sink that has written a Dataset.

        Args:
            schema: of the first block that goes into the tasks, which need not be what they write:
                Ray Data has a task do what comes before the write, too.

        Raises:
            InputError: it was used.
        """
        if self._is_used:
            raise InputError(
                "the sink has written a Dataset: a sink is of one write, make another one by "
                "pkray.ray_data.sink(table)"
            )
        self._is_used = True

    def write(self, blocks: Iterable[Block], ctx: TaskContext) -> bytes | None:
        """Push the blocks of a task; give the report of what was pushed."""
        if self._target is None:
            return None
        pusher = None
        with spans.resumed(self._envelope), spans.span("push"):
            for batch in gathered(_batches(blocks)):
                if pusher is None:
                    attempt = uuid.uuid4().int >> (128 - _ATTEMPT_BITS)
                    pusher = self._target.open(ctx.task_idx, attempt)
                pusher.push(batch, self._row_kinds, self._missing)
            return None if pusher is None else pusher.finish().to_bytes()

    def on_write_complete(self, write_result: WriteResult[bytes | None]) -> None:
        """Commit what the reported attempts pushed.

        Raises:
            LostBatchesError: an owner was lost with some of it.
        """
        if self._target is None:
            return
        assert self._session is not None, "the driver has it"
        returned = write_result.write_returns
        reports = [PushReport.from_bytes(each) for each in returned if each is not None]
        with spans.resumed(self._envelope):
            self.snapshot = self._session.commit(reports)

    def on_write_failed(self, error: Exception) -> None:
        """Drop what was pushed.

        Raises:
            TableReplacedError, TableNotFoundError: the table was dropped, whatever was met of it.
        """
        if self._session is not None and self._target is not None:
            with contextlib.suppress(ServiceError):
                self._session.abort()
        with contextlib.suppress(StorageError):
            TableIdentity.at(self._location).check_same_table()


def _batches(blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
    for block in blocks:
        yield from BlockAccessor.for_block(block).to_arrow().to_batches(PUSH_ROWS)
