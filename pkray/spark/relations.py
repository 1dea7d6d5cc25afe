"""Run plans on Spark, and read DataFrames in plans."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

from pkray.api.relation import of_source
from pkray.arguments.facade import ColumnNames, Label, checked
from pkray.errors import OptionError, SchemaError, UnsupportedError
from pkray.relational.functions.evaluation.compiled import compile_expression
from pkray.relational.plan import expressions as ir
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.nodes import Node, Scan
from pkray.relational.running import prepare
from pkray.relational.sources import Source, Watermark
from pkray.relational.sources.changelog import Mode
from pkray.relational.sources.pushdown import pushed
from pkray.relational.sources.rows import conformed, fields_of
from pkray.relational.sources.streamed import StreamedSource
from pkray.relational.sources.system import SystemSource
from pkray.relational.sources.table import TableSource
from pkray.relational.sources.watermarks import Declared, marked
from pkray.relational.spark_sql.constants import quoted
from pkray.relational.spark_sql.query import SparkSql
from pkray.schema.row_kind import parse
from pkray.spark.arguments import Frame, check_dataframe
from pkray.spark.one_task_sources import BetweenRequest
from pkray.spark.raw_files import raw_rows
from pkray.spark.source import SplitsRequest, read, read_request
from pkray.spark.streams.feeder import SparkFeeder
from pkray.spark.types import TIME_TYPE, exchange_schema, incoming_schema, spark_schema

if TYPE_CHECKING:
    from pkray.api.relation import Relation

_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    TIME_TYPE: "true",
}
"""What the text of a plan relies on; set in a session of its own, not in the user's."""


def to_spark(plan: Node, spark: SparkSession | None = None) -> DataFrame:
    """Write a plan as a DataFrame.

    The DataFrame belongs to a session of its own beside the user's (``spark.newSession()``), in
    which ANSI mode is on and the time zone is UTC.

    Args:
        spark: by default the active session.

    Raises:
        UnsupportedError: there is no session, or an operator runs on the local engine alone.
    """
    if spark is None:
        spark = SparkSession.getActiveSession()
    if spark is None:
        raise UnsupportedError("no Spark session is active: give one, as of pkray.spark.session()")
    sql = SparkSql(prefix=f"pkray_{uuid.uuid4().hex[:12]}")
    text = sql.query(plan)
    session = spark.newSession()
    spark.conf.set(TIME_TYPE, "true")  # Spark asks the active session
    for key, value in _SETTINGS.items():
        session.conf.set(key, value)
    told = {name: _told(sql, scan) for name, scan in sql.scans.items()}
    with _active(session):
        for name, shape in sql.kernels.items():
            session.udf.register(name, _kernel(shape))
        for name, scan in sql.scans.items():
            _rows(session, scan, told[name]).createOrReplaceTempView(name)
        return session.sql(text)


@contextmanager
def _active(session: SparkSession) -> Iterator[None]:
    """Make a session the active one for a while.

    A source is registered in a session only if the active one has none of its name; and making a
    DataFrame of Arrow data activates its session for good.
    """
    machine: Any = session._jvm
    sessions = machine.org.apache.spark.sql.classic.SparkSession
    before, here = sessions.getActiveSession(), SparkSession._activeSession
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        SparkSession._activeSession = here
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


@contextmanager
def named(frame: DataFrame) -> Iterator[str]:
    """Give a DataFrame a name for a while, in all sessions of the same Spark."""
    name = f"pkray_{uuid.uuid4().hex[:12]}"
    frame.createOrReplaceGlobalTempView(name)
    try:
        yield f"global_temp.{name}"
    finally:
        frame.sparkSession.catalog.dropGlobalTempView(name)


def to_batches(plan: Node, spark: SparkSession | None = None) -> Iterator[pa.RecordBatch]:
    """Run a plan on Spark and take its rows to this process, types as the plan says."""
    table = to_spark(plan, spark).toArrow()
    yield from conformed(table, plan.fields).to_batches()


def plan_to_arrow(plan: Node) -> pa.Table:
    """Run a plan whose tables are pinned on the active session."""
    return pa.Table.from_batches(to_batches(prepare(plan)), plan.fields.arrow)


@dataclass(frozen=True)
class _Told:
    """The part of a scan's condition that nothing above the scan checks again.

    Attributes:
        text: in Spark SQL; empty if there is none.
        columns: that it reads.
    """

    text: str
    columns: frozenset[str]


def _told(sql: SparkSql, scan: Scan) -> _Told:
    if not isinstance(scan.source, TableSource):
        return _Told("", frozenset())
    checked = ir.conjuncts(scan.source.remaining(scan.condition))
    own = ir.all_of(tuple(part for part in ir.conjuncts(scan.condition) if part not in checked))
    return _Told("" if own == ir.TRUE else sql.expression(own), own.columns())


def _rows(session: SparkSession, scan: Scan, told: _Told) -> DataFrame:
    """Read what a scan reads."""
    source, columns = scan.source, scan.fields.names
    if isinstance(source, DataFrameSource):
        return source.in_session(session)
    if isinstance(source, TableSource) and not source.was_empty:
        names = list(columns or source.primary_key[:1])
        return _rows_of_table(session, source, names, scan.condition, told)
    if isinstance(source, SystemSource):
        names = list(columns or source.fields.names[:1])
        return read(session, source.table, columns=names, **source.at.named)
    batches = list(source.batches(columns, scan.condition))
    schema = pa.schema([scan.fields.arrow.field(name) for name in columns])
    rows = pa.Table.from_batches(batches, schema)
    if not columns:
        count = sum(batch.num_rows for batch in batches)
        return session.range(count).select()
    exchanged = exchange_schema(rows.schema)
    given = rows.cast(exchanged) if batches else exchanged.empty_table()  # Spark takes a chunk
    return session.createDataFrame(given, schema=spark_schema(rows.schema))


def _rows_of_table(
    session: SparkSession,
    source: TableSource,
    names: list[str],
    condition: ir.Expression,
    told: _Told,
) -> DataFrame:
    """Read a table's files: by Spark where they need no merging, the others as a table."""
    predicate = pushed(condition, source.schema).predicate
    if source.reads_changes:
        table = source.table
        changed = BetweenRequest(table.location, table.schema, tuple(names), predicate)
        return read_request(session, changed)
    view = source.view or source.table.at(**source.at.named)
    splits = view.plan(names, predicate)
    needed = [name for name in source.schema.names if name in {*names, *told.columns}]
    location = source.table.location
    raw, others = raw_rows(session, location, view.schema, needed, splits)
    kept = raw if raw is None or not told.text else raw.where(told.text)
    chosen = None if kept is None else kept.select(*[quoted(name) for name in names])
    if chosen is not None and not others:
        return chosen
    merged = read_request(session, SplitsRequest(view.schema, tuple(names), tuple(others)))
    return merged if chosen is None else chosen.union(merged)


_Shape: TypeAlias = "ir.Call | ir.Chain | ir.UdfCall"


def _kernel(shape: _Shape) -> Any:
    """Make the Python function over Arrow batches by which Spark computes one call."""
    places = [each for each in shape.operands() if not isinstance(each, ir.Literal)]
    fields = Fields(tuple(Field(_name(each), each.type) for each in places))
    result = spark_schema(pa.schema([pa.field("r", shape.type.arrow)]))["r"].dataType

    def compute(*arrays: pa.Array) -> pa.Array:
        return _computed(shape, fields, arrays)

    return arrow_udf(compute, returnType=result)


def _computed(shape: _Shape, fields: Fields, arrays: Sequence[pa.Array]) -> pa.Array:
    columns = [array.cast(field.type.arrow) for array, field in zip(arrays, fields, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, schema=fields.arrow)
    value = _compiled(shape, fields).evaluate(batch)
    exchanged = exchange_schema(pa.schema([pa.field("r", value.type)]))
    return value.cast(exchanged.field("r").type)


@lru_cache(maxsize=256)
def _compiled(shape: ir.Expression, fields: Fields) -> Any:
    return compile_expression(shape, fields)


def _name(place: ir.Expression) -> str:
    return str(getattr(place, "name"))  # noqa: B009 - a ColumnRef


class DataFrameSource(Source):
    """The rows of a Spark DataFrame.

    Args:
        name: as explanations say it.
        frame: not streaming.
    """

    def __init__(self, name: str, frame: DataFrame) -> None:
        self.name = name
        self.frame = frame
        self.primary_key: tuple[str, ...] = ()
        self.mode = "insert"
        self.watermark: Watermark | None = None
        self.fields = fields_of(incoming_schema(frame.schema))

    def __repr__(self) -> str:
        return f"DataFrameSource({self.name!r})"

    def in_session(self, session: SparkSession) -> DataFrame:
        """Give the DataFrame to another session of the same Spark."""
        with named(self.frame) as name:
            return session.table(name)

    def batches(
        self, columns: Sequence[str], condition: ir.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Compute the DataFrame and take its rows to this process."""
        rows = self.frame.select(*[f"`{name}`" for name in columns]).toArrow()
        yield from conformed(rows, self.fields.only(columns)).to_batches()


@checked
def relation(
    frame: Frame,
    row_kinds: str | None = None,
    watermark: Declared | None = None,
    *,
    name: Label | None = None,
    primary_key: ColumnNames | None = None,
    checkpoint_location: str | None = None,
    keep: bool = False,
) -> Relation:
    """Take a Spark DataFrame as a relation: one that is streaming feeds continuous queries.

    Each micro-batch of a stream is one epoch of the query that reads it (``materialize``, ``INSERT
    … .start()``, ``stream``, ``foreach_batch``), together with what its tables changed meanwhile.
    Spark's tasks write the rows as Arrow into the query's folder, under the number of the
    micro-batch: one that is run again after a crash changes nothing. The Spark query runs in the
    process that started the query, with the query's trigger, and stops with it; where it fails, the
    query fails with its error. A query whose process is gone, and which runs on Ray, waits. The
    same program, started again, goes on at the same micro-batch.

    Args:
        row_kinds: of a stream: a column of '+I', '-U', '+U', '-D'; default all rows are added.
        watermark: of a stream: as of `pkray.relational.changelog`.
        name: what explanations call it; of a stream also ``status()``, and streams of one query
            have different names. Default ``dataframe``, ``stream``.
        primary_key: of a stream with `row_kinds` that replaces rows by key: then rows before
            updates may be missing.
        checkpoint_location: of a stream: a directory of one query alone, where Spark keeps its
            place. Default in the query's folder, if the warehouse is on a disk; of a query without
            a name none.
        keep: of a stream: never delete its rows from the query's folder, so that ``verify()`` can
            run over them.

    Raises:
        OptionError: arguments of a stream for what is none.
        SchemaError: a column's type has no Arrow form, or a name appears twice.
        QueryError: the watermark names no time column, or is none.
    """
    check_dataframe("relation", frame)
    if frame.isStreaming:
        key = tuple(primary_key or ())
        return of_source(
            _streamed(frame, row_kinds, watermark, name or "stream", key, checkpoint_location, keep)
        )
    if row_kinds or watermark or primary_key or checkpoint_location or keep:
        raise OptionError(
            "row_kinds, watermark, primary_key, checkpoint_location and keep are of streams, and "
            "this DataFrame is not streaming: leave them out"
        )
    return of_source(DataFrameSource(name or "dataframe", frame))


def _streamed(
    frame: DataFrame,
    row_kinds: str | None,
    watermark: Declared | None,
    name: str,
    key: tuple[str, ...],
    checkpoint_location: str | None,
    keep: bool,
) -> StreamedSource:
    schema = incoming_schema(frame.schema)
    for column in (*([row_kinds] if row_kinds else []), *key):
        if column not in schema.names:
            raise SchemaError(
                f"the stream has no column {column!r}: it has {', '.join(schema.names)}",
                column=column,
            )
    if key and row_kinds is None:
        raise OptionError(
            "primary_key says by which columns changes replace rows: give row_kinds, the column "
            "of their kinds, too",
            arguments=("primary_key",),
        )
    if row_kinds is not None:
        parse(pa.array([], schema.field(row_kinds).type), row_kinds)
    columns = fields_of(pa.schema([each for each in schema if each.name != row_kinds]))
    keyed = Fields(tuple(_as_key(each) if each.name in key else each for each in columns))
    fields, mark = marked(keyed, watermark)
    mode: Mode = "insert" if row_kinds is None else "upsert" if key else "all"
    feeder = SparkFeeder(frame, row_kinds, checkpoint_location)
    return StreamedSource(name, fields, key, mode, mark, keeps=keep, feeder=feeder)


def _as_key(field: Field) -> Field:
    return Field(field.name, field.type.with_nullable(False), field.is_rowtime)
