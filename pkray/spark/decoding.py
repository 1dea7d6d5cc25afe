"""Records of change events that are decoded by the tasks that push them.

A DataFrame has its columns before it runs, and gives its rows to whoever asks. So that events may
bring columns, and that bad ones go to a table of their own, ingest takes the records of such a
DataFrame instead, and decodes them itself: `attach` says how, and `of` finds it.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from pkray import spans
from pkray.errors import InputError, OptionError, ServiceError
from pkray.format.snapshot import Snapshot
from pkray.schema.table_schema import TableSchema
from pkray.service.client.push_batches import gathered
from pkray.service.client.push_session import PushSession
from pkray.service.client.pusher import Pusher, PushTarget
from pkray.service.protocol import PushReport
from pkray.spark.failure import ErrorChannel
from pkray.table.table import Table

ROW_KIND = "_row_kind"
_ATTRIBUTE = "_pkray_decoding"
_TOLD = "report binary, bad binary, added binary"


class PartDecoder(Protocol):
    """Decodes the records of one partition.

    Attributes:
        added: the columns found that the table has not.
    """

    @property
    def added(self) -> pa.Schema: ...

    def rows(self, records: pa.RecordBatch) -> pa.Table:
        """Decode records: the table's columns, and ``_row_kind``."""

    def bad(self) -> pa.Table | None:
        """Take the bad records since the last call, as the table of them has them."""


class Decoding(Protocol):
    """Decodes records in the tasks of a job. What `decoder` returns pickles.

    Attributes:
        records: the DataFrame of them.
        table: whose changes they are.
        errors: takes bad records; None: the first one ends the job.
    """

    @property
    def records(self) -> DataFrame: ...
    @property
    def table(self) -> Table: ...
    @property
    def errors(self) -> Table | None: ...

    def decoder(self, schema: TableSchema) -> Callable[[str], PartDecoder]:
        """Say how records become rows of a schema: what is returned takes the name of the place
        that records are of which do not say it themselves."""


def attach(frame: DataFrame, decoding: Decoding) -> DataFrame:
    """Have ingest decode a DataFrame's records itself."""
    vars(frame)[_ATTRIBUTE] = decoding
    return frame


def of(frame: DataFrame, table: Table, row_kinds: str | None) -> Decoding | None:
    """Find how the records of a DataFrame are decoded; None where it has rows.

    Raises:
        InputError: they are another table's.
        OptionError: ``row_kinds`` is not the column that they get.
    """
    found: Decoding | None = getattr(frame, "__dict__", {}).get(_ATTRIBUTE)
    if found is None:
        return None
    if found.table.location != table.location:
        raise InputError(
            f"the change events are decoded for {found.table.name}, and not for {table.name}: "
            "call pkray.cdc.changes with this table",
            given=found.table.name,
            table=table.name,
        )
    if row_kinds != ROW_KIND:
        raise OptionError(
            f"change events say in {ROW_KIND!r} what each row does, and row_kinds is "
            f"{row_kinds!r}: give row_kinds={ROW_KIND!r}",
            value=row_kinds,
        )
    return found


def push_records(
    decoding: Decoding,
    records: DataFrame,
    table: Table,
    open_push: Callable[[Table], PushSession],
    place: str,
) -> Snapshot | None:
    """Decode and push records until one run of the job found no further columns; commit that.

    Bad records are committed before the rows, under the same name: a run that is repeated after a
    crash between the two leaves them as they are.
    """
    while True:
        with ExitStack() as opened:
            session = _opened(open_push(table), opened)
            if session.is_committed:
                return session.committed
            errors = decoding.errors
            bad = None if errors is None else _opened(open_push(errors), opened)
            keeps = bad is not None and not bad.is_committed
            channel = ErrorChannel()
            task = _Task(
                decoding.decoder(table.schema),
                place,
                session.target(),
                bad.target() if bad is not None and keeps else None,
                channel,
            )
            with channel.recovered():
                told = [
                    _Told(*(None if value is None else bytes(value) for value in row))
                    for row in records.mapInArrow(task, _TOLD).collect()
                ]
            if not any(each.added for each in told):
                reports = _reports(each.bad for each in told)
                if bad is not None and reports:
                    bad.commit(reports)
                return session.commit(_reports(each.report for each in told))
        _grow(table, told)


class _Told(NamedTuple):
    """Tells the driver of a task: what it pushed of rows and of bad records, or the columns that
    the table is to have before it runs again."""

    report: bytes | None
    bad: bytes | None
    added: bytes | None


class _Task:
    def __init__(
        self,
        decoder: Callable[[str], PartDecoder],
        place: str,
        rows: PushTarget,
        bad: PushTarget | None,
        channel: ErrorChannel,
    ) -> None:
        self._decoder = decoder
        self._place = place
        self._targets = rows, bad
        self._channel = channel
        self._envelope = spans.envelope()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        with spans.resumed(self._envelope), spans.span("push"), self._channel.reported():
            decoder = self._decoder(f"{self._place} partition {context.partitionId()}")
            rows, bad = (_Pushing(target, context) for target in self._targets)
            for records in gathered(batches):
                found, refused = decoder.rows(records), decoder.bad()
                if not decoder.added.names:  # else all are decoded again
                    rows.push(found, ROW_KIND)
                    bad.push(refused)
            added = decoder.added.serialize().to_pybytes() if decoder.added.names else None
            told = _Told(None, None, added) if added else _Told(rows.finish(), bad.finish(), None)
        if any(told):
            columns = [pa.array([value], pa.binary()) for value in told]
            yield pa.RecordBatch.from_arrays(columns, names=list(_Told._fields))


class _Pushing:
    """Pushes the rows of a task, if there are any.

    Args:
        target: None: what comes was committed before, or is not kept.
    """

    def __init__(self, target: PushTarget | None, context: Any) -> None:
        self._target = target
        self._context = context
        self._pusher: Pusher | None = None

    def push(self, rows: pa.Table | None, row_kinds: str | None = None) -> None:
        if self._target is None or rows is None or not rows.num_rows:
            return
        if self._pusher is None:
            context = self._context
            self._pusher = self._target.open(context.partitionId(), context.taskAttemptId())
        self._pusher.push(rows, row_kinds)

    def finish(self) -> bytes | None:
        return None if self._pusher is None else self._pusher.finish().to_bytes()


def _opened(session: PushSession, opened: ExitStack) -> PushSession:
    """Have a session dropped when this is over; one that was committed has nothing to drop."""

    def abort() -> None:
        with contextlib.suppress(ServiceError):
            session.abort()

    opened.callback(abort)
    return session


def _reports(told: Iterable[bytes | None]) -> list[PushReport]:
    return [PushReport.from_bytes(each) for each in told if each is not None]


def _grow(table: Table, told: Iterable[_Told]) -> None:
    """Give the table the columns that were found, each as the first partition has it."""
    added: dict[str, pa.Field] = {}
    for each in told:
        if each.added is not None:
            for field in pa.ipc.read_schema(pa.py_buffer(each.added)):
                added.setdefault(field.name, field)
    table.alter.merge_schema(pa.schema(list(added.values())))
