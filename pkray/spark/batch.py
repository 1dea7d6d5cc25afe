"""A DataFrame's rows into a table: tasks push to the owners, the driver commits their reports."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from pkray import spans
from pkray.arguments.facade import Label, checked
from pkray.errors import InputError, OptionError, PkrayError, ServiceError
from pkray.format.snapshot import BATCH_COMMIT_IDENTIFIER
from pkray.rows.input import Missing
from pkray.schema.table_schema import TableSchema
from pkray.service.client.push_batches import gathered
from pkray.service.client.push_session import PushSession
from pkray.service.client.pusher import PushTarget, incoming
from pkray.service.protocol import PushReport
from pkray.spark import decoding
from pkray.spark.arguments import Frame, check_dataframe, check_table
from pkray.spark.decoding import Decoding, push_records
from pkray.spark.failure import ErrorChannel, typed, worth_another_run
from pkray.spark.types import added_schema, incoming_schema

if TYPE_CHECKING:
    from pkray.format.snapshot import Snapshot
    from pkray.table.table import Table


_REPORT = pa.schema([pa.field("report", pa.binary())])
_LONGEST_WAIT_SECONDS = 8.0
"""Between two attempts; each wait is twice the last."""

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@checked
@typed()
def ingest(
    df: Frame,
    table: Table,
    *,
    commit_user: Label | None = None,
    commit_identifier: int | None = None,
    row_kinds: str | None = None,
    max_attempts: int = 5,
    missing: Missing = "error",
    merge_schema: bool = False,
) -> Snapshot | None:
    """Upsert a batch DataFrame in one commit, without its rows passing through the driver.

    Args:
        commit_user, commit_identifier: the commit's name, both or neither; a name that was
            committed before changes nothing and the job does not run. Default: a name of its
            own, so that calling again writes the rows again.
        row_kinds: a column of '+I', '-U', '+U', '-D'; default all rows are upserts.
        max_attempts: how often the job runs when owners restart in the middle of it.
        missing, merge_schema: as `Table.open_writer` takes them.

    Returns:
        The snapshot; None where nothing was committed or its snapshot has expired.

    Raises:
        InputError: the rows do not fit the table, or what is no DataFrame or no table; nothing
            was committed.
        ServiceError: owners were lost, or tasks of Spark's killed, in every attempt.
        ServiceUnavailableError: Spark's own process is gone.
        PySparkException: the DataFrame itself fails; Spark says how.
    """
    check_dataframe("ingest", df)
    check_table("ingest", table)
    if df.isStreaming:
        raise InputError(
            "ingest takes a batch DataFrame, and this one is streaming: use "
            "pkray.spark.start_ingest"
        )
    if (commit_user is None) != (commit_identifier is None):
        raise OptionError(
            "commit_user and commit_identifier name a commit together: give both, or neither",
            commit_user=commit_user,
            commit_identifier=commit_identifier,
        )
    user = commit_user or f"spark-{uuid.uuid4()}"
    identifier = BATCH_COMMIT_IDENTIFIER if commit_identifier is None else commit_identifier
    if merge_schema:
        table.alter.merge_schema(added_schema(df.schema), row_kinds)
    alone = commit_user is None
    found = decoding.of(df, table, row_kinds)
    return push_and_commit(
        df if found is None else found.records,
        table,
        user,
        identifier,
        row_kinds,
        missing,
        max_attempts,
        alone,
        found,
    )


def push_and_commit(
    df: Frame,
    table: Table,
    commit_user: Label,
    commit_identifier: int,
    row_kinds: str | None,
    missing: Missing = "error",
    max_attempts: int = 5,
    alone: bool = False,
    decoded: Decoding | None = None,
) -> Snapshot | None:
    """Run the push job until one run of it is committed under the name.

    Args:
        alone: nobody else has the commit user.
        decoded: how the tasks decode the DataFrame, which has records; None: it has rows.
    """
    if decoded is None:
        check_columns(df, table.schema, row_kinds, missing)

    def open_push(each: Table) -> PushSession:
        return each._open_push(commit_user, commit_identifier, alone)

    place = commit_user if alone else f"{commit_user} commit {commit_identifier}"
    wait = 1.0
    for left in range(max_attempts - 1, -1, -1):
        try:
            with spans.span("spark_batch", table=table.name):
                if decoded is None:
                    return _push_rows(df, open_push(table), row_kinds, missing)
                return push_records(decoded, df, table, open_push, place)
        except PkrayError as error:
            if left == 0 or not worth_another_run(error):
                raise
        time.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
    raise OptionError(f"max_attempts is {max_attempts}: give 1 or more", value=max_attempts)


def check_columns(
    df: DataFrame, schema: TableSchema, row_kinds: str | None, missing: Missing
) -> None:
    """Refuse a DataFrame whose columns do not fit the table, before any job runs.

    Raises:
        InputError: a column is missing, too many or of another type.
    """
    rows = incoming_schema(df.schema).empty_table()
    for _ in incoming(rows, schema, row_kinds, missing=missing):
        pass


def _push_rows(
    df: DataFrame, session: PushSession, row_kinds: str | None, missing: Missing
) -> Snapshot | None:
    if session.is_committed:
        return session.committed
    errors = ErrorChannel()
    try:
        with errors.recovered():
            push = push_task(session.target(), row_kinds, missing, errors)
            job = df.mapInArrow(push, "report binary")
            reports = [PushReport.from_bytes(bytes(row[0])) for row in job.collect()]
        return session.commit(reports)
    except BaseException:
        with contextlib.suppress(ServiceError):
            session.abort()
        raise


def push_task(
    target: PushTarget, row_kinds: str | None, missing: Missing, errors: ErrorChannel
) -> Task:
    """Make the task that pushes a partition on an executor, and yields its report alone."""
    envelope = spans.envelope()

    def push(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        pusher = None
        with spans.resumed(envelope), spans.span("push"), errors.reported():
            for batch in gathered(batches):
                if pusher is None:
                    pusher = target.open(context.partitionId(), context.taskAttemptId())
                pusher.push(batch, row_kinds, missing)
            if pusher is None:
                return
            report = pusher.finish().to_bytes()
        yield pa.RecordBatch.from_arrays([pa.array([report], pa.binary())], schema=_REPORT)

    return push
