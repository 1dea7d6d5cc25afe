"""A table's changes as a streaming DataFrame, through Spark's Python Data Source API."""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib.metadata import version
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pkray.arguments.facade import ColumnNames, Label, checked
from pkray.changelog.changes import check_streamable, warn_of_cost
from pkray.changelog.request import ChangeRequest
from pkray.changelog.start import Start, StartMode
from pkray.errors import OptionError, UnsupportedError
from pkray.scan.moment import Timestamp
from pkray.spark.arguments import Session, check_session, check_table
from pkray.spark.bound_source import load
from pkray.spark.failure import typed
from pkray.spark.source_options import SourceOptions
from pkray.spark.streams.change_reader import LIMITS_ROWS, ChangeReader, StreamRequest
from pkray.table.system_table import SystemTable

if TYPE_CHECKING:
    from pkray.table.table import Table

FORMAT = "pkray-changes"


@checked
@typed()
def read_stream(
    spark: Session,
    table: Table,
    *,
    mode: StartMode | None = None,
    from_snapshot: int | None = None,
    from_timestamp: Timestamp | None = None,
    consumer_id: Label | None = None,
    normalize: bool = False,
    columns: ColumnNames | None = None,
    filter: object = None,
    max_snapshots: int | None = None,
) -> DataFrame:
    """Stream a table's changes: ``_row_kind``, ``_snapshot_id``, then its columns.

    The table as it is comes as the first micro-batch, of +I; each later one has the changes of
    the snapshots committed meanwhile. A Spark partition has all changes of a bucket, in their
    order. The query's checkpoint keeps the place.

    Args:
        mode, from_snapshot, from_timestamp, normalize, columns, filter: as of ``Table.stream``.
        consumer_id: keeps what is not read yet from expiring; a query without a checkpoint goes
            on where the consumer was. Default the table's ``consumer-id``.
        max_snapshots: of which a micro-batch has the changes at most. Default all there are.

    Raises:
        OptionError: arguments that contradict each other.
        UnsupportedError: as of ``Table.stream``.
    """
    check_table("read_stream", table)
    check_session("read_stream", spark)
    options = table.schema.core
    if max_snapshots is not None and max_snapshots < 1:
        raise OptionError(f"max_snapshots is {max_snapshots}: give 1 or more", value=max_snapshots)
    if normalize:
        warn_of_cost(table.name, options)
    else:
        check_streamable(table.name, options)
    request = StreamRequest(
        table.location,
        ChangeRequest.from_arguments(table.location, table.schema, columns, filter),
        Start.from_arguments(options, mode, from_snapshot, from_timestamp),
        normalize,
        options.consumer_id if consumer_id is None else consumer_id,
        max_snapshots,
    )
    return load(spark, spark.readStream, ChangeSource, request)


def request_by_options(table: Table | SystemTable, options: SourceOptions) -> StreamRequest:
    """Make the request of ``readStream.format("pkray")``, checked.

    Raises:
        OptionError: an option that a stream does not take, or not with this table.
        UnsupportedError: as of ``Table.stream``; a system table; a Spark that asks for no limits.
        InputError: a column the table does not have, or a filter that is not understood.
    """
    if isinstance(table, SystemTable):
        raise UnsupportedError(
            f"{table.name} is a system table, which no stream reads: use spark.read, or a stream "
            "of the table",
            table=table.name,
        )
    core = table.schema.core
    check_streamable(table.name, core)
    if options.at.watermark is not None:
        raise OptionError(
            "a stream does not begin at a watermark: give snapshot-id, tag or timestamp",
            key="watermark",
        )
    if options.max_rows is not None and not LIMITS_ROWS:
        raise UnsupportedError(
            f"option max-rows needs Spark 4.2, and this is Spark {version('pyspark')}: leave it "
            "out, or use pkray.spark.read_stream with max_snapshots",
            key="max-rows",
        )
    if options.row_kinds in table.schema.names:
        raise OptionError(
            f"row-kind-column is {options.row_kinds!r}, which is a column of {table.name}: give "
            "another name",
            key="row-kind-column",
        )
    at = options.at
    start = (
        Start("latest")
        if at.tag
        else Start.from_arguments(core, None, at.snapshot_id, at.timestamp)
    )
    return StreamRequest(
        table.location,
        ChangeRequest.from_arguments(table.location, table.schema, options.columns, options.filter),
        start,
        consumer_id=options.consumer or core.consumer_id,
        tag=at.tag,
        max_rows=options.max_rows,
        labelled=False,
        row_kinds=options.row_kinds,
    )


class ChangeSource(DataSource):
    """The streaming source of `read_stream`."""

    request: ClassVar[StreamRequest | None] = None

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        if self.request is None:
            raise OptionError(f"the source {FORMAT!r} is opened by pkray.spark.read_stream")
        self._request = self.request

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return self._request.schema

    def streamReader(self, schema: StructType) -> ChangeReader:  # noqa: N802
        return ChangeReader(self._request, schema)
