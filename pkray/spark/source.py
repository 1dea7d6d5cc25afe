"""Tables as Spark DataFrames, through Spark's Python Data Source API, which pushes filters down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pkray import errors, spans
from pkray.api.catalog import connect
from pkray.arguments.facade import ColumnNames, checked
from pkray.format.snapshot import Snapshot
from pkray.metadata.live import unless_expired
from pkray.scan.moment import Moment, Timestamp
from pkray.scan.plan import ScanPlanner
from pkray.scan.predicate import Predicate, pushed, with_pushed
from pkray.scan.split import Split, arrow_schema
from pkray.scan.view import SnapshotView
from pkray.schema.table_schema import TableSchema
from pkray.spark.arguments import Session, check_session, check_table
from pkray.spark.bound_source import load
from pkray.spark.changes import request_by_options
from pkray.spark.failure import typed
from pkray.spark.one_task_sources import BetweenRequest, SystemRequest
from pkray.spark.sink import STREAMS, BatchWriter, StreamWriter
from pkray.spark.source_options import SinkOptions, SourceOptions
from pkray.spark.streams.change_reader import ChangeReader, StreamRequest
from pkray.spark.types import TIME_TYPE, spark_schema, to_arrow_schema, to_exchange
from pkray.storage.location import TableLocation
from pkray.table.system_table import SystemTable

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from pkray.table.table import Table

Request: TypeAlias = "ReadRequest | SplitsRequest | SystemRequest | BetweenRequest"
FORMAT = "pkray"
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_VIEW = "CREATE TEMPORARY VIEW v USING pkray OPTIONS (path '…', `table` 'shop.orders')"


@checked
@typed()
def read(
    spark: Session,
    table: Table | SystemTable,
    *,
    columns: ColumnNames | None = None,
    filter: object = None,
    snapshot_id: int | None = None,
    tag: str | None = None,
    timestamp: Timestamp | None = None,
    watermark: int | None = None,
) -> DataFrame:
    """Read a table's rows at one snapshot, a Spark partition a bucket; or a system table's.

    Args:
        columns: what to read; default every column. Name the few you need: Spark does not pass
            a later ``select`` down.
        filter: as of ``Table.to_arrow``. A later ``where`` also prunes partitions and files, by
            its comparisons of columns with literals.
        snapshot_id, tag, timestamp, watermark: a moment as of ``Table.at``; default the newest
            snapshot now. The DataFrame stays on it.

    Raises:
        InputError: a column the table does not have, a filter that is not understood, or what is
            no table.
        SnapshotNotFoundError: the snapshot has expired or was never made.
    """
    check_table("read", table)
    check_session("read", spark)
    moment = Moment.from_arguments(snapshot_id, tag, timestamp, watermark)
    request = request_of(table, columns, filter, moment)
    register(spark)
    return load(spark, spark.read, RequestSource, request)


@checked
@typed()
def register(spark: Session) -> None:
    """Make the format ``pkray`` known to a session's reads and writes, and to SQL.

    ::

        CREATE TEMPORARY VIEW orders USING pkray
            OPTIONS (path 's3://bucket/warehouse', `table` 'shop.orders')

    Its options: ``path`` (the warehouse), ``table`` (database.table), ``columns``
    (comma-separated), ``filter`` (SQL text), ``snapshot-id``, ``tag``, ``timestamp`` or
    ``watermark``, and ``storage.<name>`` for what the object store needs. ``spark.readStream``
    takes them, too, but ``watermark``: ``snapshot-id``, ``tag`` and ``timestamp`` say where the
    stream begins, without them at the table as it is. It also takes ``row-kind-column``, the name
    of a column that says what each row does, without which a deletion ends the stream;
    ``consumer``, which keeps what is not read yet from expiring; and ``max-rows``, which limits a
    micro-batch. ``CREATE TABLE … USING
    pkray`` is refused, or where it has columns its reads are: Spark does not pass it on. Spark's
    settings ``spark.sql.python.filterPushdown.enabled`` and ``spark.sql.timeType.enabled``, without
    which Spark refuses columns of type TIME, are on from here.
    """
    check_session("register", spark)
    for setting in (_PUSHDOWN, TIME_TYPE):
        spark.conf.set(setting, "true")
    spark.dataSource.register(TableSource)


@dataclass(frozen=True)
class ReadRequest:
    """The rows to read."""

    location: TableLocation
    schema: TableSchema
    columns: tuple[str, ...] | None
    predicate: Predicate | None
    snapshot: Snapshot | None

    @property
    def table(self) -> str:
        return self.location.name

    @property
    def arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema, self.columns)

    def splits(self) -> list[Split]:
        """Plan the read."""
        store = self.location.open()
        planner = ScanPlanner(self.location, store, self.schema)
        with unless_expired(store, None if self.snapshot is None else self.snapshot.id):
            return planner.scan(self.snapshot, self.columns, self.predicate)

    def narrowed(self, filters: Sequence[Filter]) -> ReadRequest:
        """Ask for less to read, by what is understood of the filters."""
        return replace(self, predicate=narrowed(self.predicate, filters, self.schema))


@dataclass(frozen=True)
class SplitsRequest:
    """Splits that have been planned, to be read."""

    schema: TableSchema
    columns: tuple[str, ...]
    planned: tuple[Split, ...]

    @property
    def table(self) -> str | None:
        return self.planned[0].location.name if self.planned else None

    @property
    def arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema, self.columns)

    def splits(self) -> list[Split]:
        """Give the splits."""
        return list(self.planned)

    def narrowed(self, filters: Sequence[Filter]) -> SplitsRequest:
        """Leave out rows, of the same files, by what is understood of the filters."""
        return replace(
            self,
            planned=tuple(
                replace(split, predicate=narrowed(split.predicate, filters, self.schema))
                for split in self.planned
            ),
        )


class TableSource(DataSource):
    """Reads and writes tables by options."""

    envelope: ClassVar[str | None] = None

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @cached_property
    def _request(self) -> Request:
        return self._asked()

    @cached_property
    def _stream(self) -> StreamRequest:
        options = self._named
        with connect(options.path, **options.storage) as catalog:
            return request_by_options(catalog.load_table(options.table), options)

    def schema(self) -> StructType:
        """Give the schema, of a stream too: Spark does not say which of them is asked for.

        Where the snapshot is gone a stream may have begun at it, and go on at its checkpoint.
        """
        if self._named.of_stream:
            return self._stream.schema
        try:
            return spark_schema(self._request.arrow_schema)
        except (errors.SnapshotNotFoundError, errors.TagNotFoundError):
            return self._stream.schema

    def reader(self, schema: StructType) -> SplitReader:
        request = self._request
        self._check_columns(schema)
        return TableReader(request, schema, self.envelope)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return BatchWriter(SinkOptions.parse(self.options, streaming=False), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        if not STREAMS:
            raise _unsupported(
                "df.writeStream of Spark 4.0",
                "pkray.spark.start_ingest(df, table), which commits exactly once",
            )
        return StreamWriter(SinkOptions.parse(self.options, streaming=True), schema, overwrite)

    def streamReader(self, schema: StructType) -> ChangeReader:  # noqa: N802
        self._check_columns(schema)
        request = self._stream.with_columns(schema.names)
        if request.schema.simpleString() != schema.simpleString():
            raise errors.InputError(
                f"the stream begins at {schema.simpleString()}, and the table is "
                f"{request.schema.simpleString()} now: name the columns that both have, by the "
                "option columns",
                given=schema.simpleString(),
                table=request.schema.simpleString(),
            )
        return ChangeReader(request, schema)

    @property
    def _named(self) -> SourceOptions:
        if "provider" in self.options:
            raise _unsupported("CREATE TABLE", f"{_VIEW}, or catalog.create_table for a new table")
        return SourceOptions.parse(self.options)

    def _asked(self) -> Request:
        asked = self._named
        for name in asked.of_stream:
            raise errors.OptionError(
                f"option {name!r} is of spark.readStream: leave it out", key=name
            )
        with connect(asked.path, **asked.storage) as catalog:
            table = catalog.load_table(asked.table)
            return request_of(table, asked.columns, asked.filter, asked.at)

    def _check_columns(self, given: StructType) -> None:
        has = self.schema().simpleString()
        if given.simpleString() != has:
            raise errors.InputError(
                f"the columns given, {given.simpleString()}, are not the table's, which has {has}: "
                "leave them out",
                given=given.simpleString(),
                table=has,
            )


class RequestSource(TableSource):
    """The batch source of `read`."""

    request: ClassVar[Request | None] = None

    @classmethod
    def name(cls) -> str:
        return "pkray-read"

    def schema(self) -> StructType:
        return spark_schema(self._request.arrow_schema)

    def _asked(self) -> Request:
        if self.request is None:
            raise errors.OptionError(f"the source {self.name()!r} is opened by pkray.spark.read")
        return self.request


class SplitPartition(InputPartition):
    """A split as a Spark partition.

    Args:
        envelope: of the scan that it is part of.
    """

    def __init__(
        self, split: Split | SystemRequest | BetweenRequest, envelope: str | None = None
    ) -> None:
        super().__init__(split)
        self.split = split
        self.envelope = envelope


class SplitReader(DataSourceReader):
    """Plans splits on the driver, reads them on executors.

    Args:
        envelope: of whoever asked for the DataFrame, where it is known.
    """

    def __init__(self, request: Request, schema: StructType, envelope: str | None = None) -> None:
        self._request = request
        self._exchange = to_arrow_schema(schema)
        self._envelope = envelope

    def partitions(self) -> Sequence[InputPartition]:
        about = spans.span("scan", table=self._request.table)
        with spans.resumed(self._envelope), about:
            envelope = spans.envelope()
            return [SplitPartition(split, envelope) for split in self._request.splits()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SplitPartition):
            return iter(())
        rows = (to_exchange(batch, self._exchange) for batch in partition.split.read())
        return spans.over("task", rows, partition.envelope)


class TableReader(SplitReader):
    """Leaves out what Spark's filters say, too."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Prune by what is understood of the filters; Spark still applies them all."""
        self._request = self._request.narrowed(filters)
        return filters


def read_request(spark: SparkSession, request: SplitsRequest | BetweenRequest) -> DataFrame:
    """Read what a request says."""
    register(spark)
    return load(spark, spark.read, RequestSource, request)


def request_for(
    view: SnapshotView, location: TableLocation, columns: Sequence[str] | None, filter: object
) -> ReadRequest:
    """Make the request of `read`, checked; it is held to the view's snapshot."""
    arrow_schema(view.schema, columns)
    predicate = None if filter is None else Predicate.parse(filter, view.schema)
    return ReadRequest(
        location,
        view.schema,
        tuple(columns) if columns is not None else None,
        predicate,
        view.snapshot,
    )


def request_of(
    table: Table | SystemTable, columns: Sequence[str] | None, filter: object, at: Moment
) -> Request:
    """Make the request of a table or system table, checked."""
    if not isinstance(table, SystemTable):
        view = table.at(**at.named)
        return request_for(view, table.location, columns, filter)
    if at.watermark is not None:
        raise errors.OptionError(
            f"{table.name} is a system table, which is read by snapshot, tag or timestamp",
            watermark=at.watermark,
        )
    names = tuple(columns) if columns is not None else None
    request = SystemRequest(
        table.table.location, table.table.schema, table.system_name, names, filter, at
    )
    request.read()
    return request


def _unsupported(what: str, instead: str) -> errors.UnsupportedError:
    return errors.UnsupportedError(
        f"{what} does not take the format {FORMAT!r}: use {instead}", format=FORMAT
    )


_OPERATORS = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "In": "in",
}
"""By the name of Spark's class: Spark 4.0 has none of them, and pushes nothing down."""


def narrowed(
    predicate: Predicate | None, filters: Sequence[Filter], schema: TableSchema
) -> Predicate | None:
    """Return the predicate and, of the filters, what can prune."""
    return with_pushed(predicate, (_predicate(each, schema) for each in filters))


def _predicate(one: Filter, schema: TableSchema) -> Predicate | None:
    operator = _OPERATORS.get(type(one).__name__)
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if operator is None or len(path) != 1:
        return None
    return pushed(path[0], operator, one.value, schema)  # type: ignore[attr-defined]
