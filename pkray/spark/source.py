"""Tables as Spark DataFrames, through Spark's Python Data Source API."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pkray.errors import OptionError, UnsupportedError
from pkray.format.snapshot import Snapshot
from pkray.scan.plan import ScanPlanner
from pkray.scan.predicate import Predicate
from pkray.scan.split import Split, arrow_schema
from pkray.scan.travel import Timestamp
from pkray.scan.view import SnapshotView
from pkray.schema import TableSchema
from pkray.spark.arguments import check_table
from pkray.spark.pushdown import narrowed
from pkray.spark.system_source import SystemRequest, system_request
from pkray.spark.types import spark_schema, to_exchange
from pkray.storage.location import TableLocation
from pkray.system_table import SystemTable

if TYPE_CHECKING:
    from pkray.table import Table

FORMAT = "pkray"
_REQUEST = "request"
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_STORAGE = "storage."
_NUMBERS = ("snapshot-id", "watermark")
_OPTIONS = ("path", "table", "columns", "filter", "tag", "timestamp", *_NUMBERS)


def read(
    spark: SparkSession,
    table: Table | SystemTable,
    *,
    columns: Sequence[str] | None = None,
    filter: object = None,
    snapshot_id: int | None = None,
    tag: str | None = None,
    timestamp: Timestamp | None = None,
    watermark: int | None = None,
) -> DataFrame:
    """A table's rows at one snapshot, a Spark partition a bucket; or a system table's.

    Args:
        columns: what to read; default every column. Name the few you need: Spark does not pass
            a later ``select`` down.
        filter: as of ``Table.to_arrow``. A later ``where`` also prunes partitions and files, by
            its comparisons of columns with literals.
        snapshot_id, tag, timestamp, watermark: a moment as of ``Table.view``; default the newest
            snapshot now. The DataFrame stays on it.

    Raises:
        InputError: a column the table does not have, a filter that is not understood, or what is
            no table.
        SnapshotNotFoundError: the snapshot has expired or was never made.
    """
    check_table("read", table)
    request = _request(table, columns, filter, snapshot_id, tag, timestamp, watermark)
    register(spark)
    text = base64.b64encode(pickle.dumps(request)).decode()
    return spark.read.format(FORMAT).option(_REQUEST, text).load()


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("pkray")`` known to a session.

    Its options: ``path`` (the warehouse), ``table`` (database.table), ``columns``
    (comma-separated), ``filter`` (SQL text), ``snapshot-id``, ``tag``, ``timestamp`` or
    ``watermark``, and ``storage.<name>`` for what the object store needs. Spark's setting
    ``spark.sql.python.filterPushdown.enabled`` is on from here.
    """
    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(TableSource)


@dataclass(frozen=True)
class ReadRequest:
    """What to read; it pickles."""

    location: TableLocation
    schema: TableSchema
    columns: tuple[str, ...] | None
    predicate: Predicate | None
    snapshot: Snapshot | None

    @property
    def arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema, self.columns)

    def splits(self) -> list[Split]:
        planner = ScanPlanner(self.location, self.location.open(), self.schema)
        return planner.scan(self.snapshot, self.columns, self.predicate)

    def narrowed(self, filters: Sequence[Filter]) -> ReadRequest:
        """Less to read, by what is understood of the filters."""
        return replace(self, predicate=narrowed(self.predicate, filters, self.schema))


class TableSource(DataSource):
    """The batch source."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        text = options.get(_REQUEST)
        self._request: ReadRequest | SystemRequest = (
            pickle.loads(base64.b64decode(text)) if text else _request_from(options)
        )

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return spark_schema(self._request.arrow_schema)

    def reader(self, schema: StructType) -> TableReader:
        return TableReader(self._request, schema)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        raise _unsupported("df.write", "pkray.spark.ingest(df, table)")

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802
        raise _unsupported("df.writeStream", "pkray.spark.start_ingest(df, table)")

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802
        raise _unsupported("spark.readStream", "pkray.spark.read_stream(spark, table)")


class SplitPartition(InputPartition):
    """A split as a Spark partition."""

    def __init__(self, split: Split | SystemRequest) -> None:
        super().__init__(split)
        self.split = split


class TableReader(DataSourceReader):
    """Plans splits on the driver, reads them on executors."""

    def __init__(self, request: ReadRequest | SystemRequest, schema: StructType) -> None:
        self._request = request
        self._exchange = to_arrow_schema(schema, timezone="UTC")

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Prune by what is understood of the filters; Spark still applies them all."""
        self._request = self._request.narrowed(filters)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        return [SplitPartition(split) for split in self._request.splits()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, SplitPartition):
            for batch in partition.split.read():
                yield to_exchange(batch, self._exchange)


def request_for(
    view: SnapshotView,
    location: TableLocation,
    columns: Sequence[str] | None,
    filter: object,
) -> ReadRequest:
    """The request of `read`, checked; it is held to the view's snapshot."""
    arrow_schema(view.schema, columns)
    predicate = None if filter is None else Predicate.parse(filter, view.schema)
    return ReadRequest(
        location,
        view.schema,
        tuple(columns) if columns is not None else None,
        predicate,
        view.snapshot,
    )


def _request(
    table: Table | SystemTable,
    columns: Sequence[str] | None,
    filter: object,
    snapshot_id: int | None,
    tag: str | None,
    timestamp: Timestamp | None,
    watermark: int | None,
) -> ReadRequest | SystemRequest:
    if not isinstance(table, SystemTable):
        view = table.view(snapshot_id, tag, timestamp, watermark)
        return request_for(view, table.location, columns, filter)
    if watermark is not None:
        raise OptionError(
            f"{table.name} is a system table, which is read by snapshot, tag or timestamp",
            watermark=watermark,
        )
    request = system_request(table, columns, filter, snapshot_id, tag, timestamp)
    request.read()
    return request


def _unsupported(what: str, instead: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what} does not take the format {FORMAT!r}: use {instead}, which commits exactly once",
        format=FORMAT,
    )


def _request_from(options: MutableMapping[str, str]) -> ReadRequest | SystemRequest:
    storage: dict[str, Any] = {
        key[len(_STORAGE) :]: value
        for key, value in options.items()
        if key.lower().startswith(_STORAGE)
    }
    for key in options:
        if key.lower() not in _OPTIONS and not key.lower().startswith(_STORAGE):
            raise OptionError(
                f"option {key!r} is unknown to the pkray source: it takes {', '.join(_OPTIONS)} "
                "and storage.<name>",
                key=key,
            )
    if not options.get("path") or not options.get("table"):
        raise OptionError(
            "the pkray source needs the options path (the warehouse) and table (database.table)"
        )
    numbers: dict[str, int | None] = {key: _number(options, key) for key in _NUMBERS}
    timestamp = options.get("timestamp")
    from pkray.catalog import connect

    columns = options.get("columns")
    with connect(options["path"], **storage) as catalog:
        table = catalog.load_table(options["table"])
        return _request(
            table,
            [name.strip() for name in columns.split(",")] if columns else None,
            options.get("filter"),
            numbers["snapshot-id"],
            options.get("tag"),
            int(timestamp) if timestamp and timestamp.isdigit() else timestamp,
            numbers["watermark"],
        )


def _number(options: MutableMapping[str, str], key: str) -> int | None:
    text = options.get(key)
    if text is not None and not text.isdigit():
        raise OptionError(f"{key} is {text!r}: give a number", key=key)
    return None if text is None else int(text)
