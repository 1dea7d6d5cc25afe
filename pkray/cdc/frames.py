"""DataFrames of records, batch or streaming, as changes that ingest takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from pkray.cdc.avro.schemas import AvroSchemas, Given
from pkray.cdc.bad_records import check_errors, rows_of
from pkray.cdc.decoder import (
    BadRecord,
    ChangeFormat,
    Decoder,
    NewColumnsPolicy,
    Records,
    check_word,
)
from pkray.cdc.kinds import WORDS
from pkray.cdc.readings import Handling
from pkray.cdc.row_changes import ROW_KIND, Target, no_rows
from pkray.errors import InputError, OptionError
from pkray.rows.input import Missing
from pkray.schema.table_schema import TableSchema
from pkray.spark.arguments import Frame, check_dataframe, check_table
from pkray.spark.decoding import attach
from pkray.spark.failure import FRAMES, ErrorChannel
from pkray.spark.types import exchange_schema, spark_schema, to_exchange
from pkray.table.table import Table

ROW_KINDS = "row-kinds"
"""The format of rows with a column that says what became of them."""
_PLACE = ("topic", "partition", "offset")
"""Columns of Spark's source of Kafka."""


def changes(
    df: Frame,
    table: Table,
    *,
    format: str,
    value: str = "value",
    metadata: Mapping[str, str] | None = None,
    decimal_handling_mode: str | None = None,
    time_precision_mode: str | None = None,
    binary_handling_mode: str | None = None,
    avro_schema: Given | None = None,
    missing: Missing = "error",
    row_kinds: str | None = None,
    words: Mapping[str, str] | None = None,
    new_columns: NewColumnsPolicy = "refuse",
    errors: Table | None = None,
) -> Frame:
    """Decode a DataFrame's records, in its tasks.

    ``pkray.spark.ingest(changes, table, row_kinds="_row_kind")`` and ``start_ingest`` take what it
    returns. The order of rows within a micro-batch is Spark's: name the log's position as the
    table's ``sequence.field``, such as ``metadata={"lsn": "source.lsn"}``.

    Args:
        table: whose columns the rows get.
        format: ``debezium-json``, ``debezium-avro``, ``canal-json``, ``maxwell-json``, or
            ``row-kinds`` for rows with a column that says what became of them.
        value: the column of records, text or binary; a NULL is a tombstone.
        metadata, decimal_handling_mode, time_precision_mode, binary_handling_mode, missing: as
            `pkray.cdc.decode` takes them.
        avro_schema: as `pkray.cdc.decode` takes it; files are read here, and not by executors.
        row_kinds, words: of ``row-kinds``, as `with_row_kinds` takes them.
        new_columns: ``add`` has ingest give the table the columns that events have and it lacks:
            it then decodes the micro-batch again. ``refuse`` makes such an event bad.
        errors: a table that takes bad records, as `pkray.cdc.open_errors` opens it: their place
            and the reason, committed before the rows. Default: the first one ends the job.

    Returns:
        A DataFrame of the table's columns, and ``_row_kind``. A record that cannot be read ends
        the job: ingest raises its `ChangeRecordError`, which names topic, partition and offset
        where the DataFrame has them, else the commit, Spark's partition, and the row in it. A
        value that did not change and that the event does not bring is null for a partial-update
        table, and ends the job for others. With ``new_columns`` or ``errors`` give it to ingest as
        it is: whatever else runs it adds no columns, and ends with the first bad record.

    Raises:
        InputError: ``value`` is no such column, or ``errors`` no table of bad records.
        OptionError: a format that there is not, or ``row-kinds`` with options of records.
    """
    check_dataframe("changes", df)
    check_table("changes", table)
    check_word("new_columns", new_columns, NewColumnsPolicy)
    if format == ROW_KINDS:
        if new_columns == "add" or errors is not None:
            raise OptionError(
                f"format {ROW_KINDS!r} has rows and no records: add columns by merge_schema=True "
                "of ingest, and give no errors",
                format=format,
            )
        return _of_words(df, row_kinds, words)
    if errors is not None:
        check_errors(errors)
    known = {field.name: field.dataType.simpleString() for field in df.schema}
    if known.get(value) not in ("string", "binary"):
        raise InputError(
            f"column {value!r} is to hold records, text or binary: the DataFrame has "
            f"{', '.join(f'{name} {kind}' for name, kind in known.items())}",
            column=value,
        )
    place = [name for name in _PLACE if name in known and name != value]
    decoding = _Decoding(
        df.select(value, *place),
        table,
        errors,
        ChangeFormat.named(format),
        metadata,
        Handling(decimal_handling_mode, time_precision_mode, binary_handling_mode),
        AvroSchemas.given(avro_schema),
        value,
        missing,
        new_columns,
    )
    task = decoding.decoder(table.schema)
    task("")  # what is not read is refused here
    schema = spark_schema(no_rows(task.target).schema)
    frame = decoding.records.mapInArrow(task.run, schema)
    return frame if new_columns == "refuse" and errors is None else attach(frame, decoding)


@dataclass(frozen=True)
class _Decoding:
    """Decodes change events for a table; see `pkray.spark.decoding.Decoding`."""

    records: Frame
    table: Table
    errors: Table | None
    format: ChangeFormat
    metadata: Mapping[str, str] | None
    handling: Handling
    schemas: AvroSchemas
    value: str
    missing: Missing
    new_columns: NewColumnsPolicy

    def decoder(self, schema: TableSchema) -> _Task:
        lacks = self.missing == "null" or self.new_columns == "add"
        target = Target.from_schema(schema, self.metadata, may_lack=lacks)
        is_partial = schema.core.merge_engine == "partial-update"
        return _Task(
            self.format,
            target,
            self.handling,
            self.schemas,
            self.value,
            self.new_columns,
            is_partial,
            self.errors is not None,
            FRAMES,
        )


@dataclass(frozen=True)
class _Task:
    """Decodes partitions on executors; it pickles, which a `Decoder` does not.

    Args:
        keeps_bad: bad records are given to whoever asks for them.
        channel: brings the first one to the driver, where the rows are part of a DataFrame.
    """

    format: ChangeFormat
    target: Target
    handling: Handling
    schemas: AvroSchemas
    value: str
    new_columns: NewColumnsPolicy
    is_partial: bool
    keeps_bad: bool
    channel: ErrorChannel

    def __call__(self, place: str) -> _Part:
        return _Part(self, place)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode a partition into rows, as part of a DataFrame."""
        schema = exchange_schema(no_rows(self.target).schema)
        with self.channel.reported():
            part = replace(self, new_columns="refuse", keeps_bad=False)("the DataFrame")
            for batch in batches:
                for rows in part.rows(batch).combine_chunks().to_batches():
                    yield to_exchange(rows, schema)


class _Part:
    """Decodes a partition; see `PartDecoder`. A record is named by its place in Kafka, where the
    DataFrame says it."""

    def __init__(self, task: _Task, place: str) -> None:
        self._decoder = Decoder(
            task.format,
            task.target,
            task.handling,
            task.new_columns,
            "null" if task.is_partial else "refuse",
            self._refuse,
            task.schemas,
        )
        self._task = task
        self._place = place
        self._batch: pa.RecordBatch | None = None
        self._first = 0
        self._bad: list[BadRecord] = []

    @property
    def added(self) -> pa.Schema:
        known = self._task.target.columns
        found = self._decoder.target.columns.items()
        return pa.schema([pa.field(name, kind.arrow) for name, kind in found if name not in known])

    def rows(self, records: pa.RecordBatch) -> pa.Table:
        self._batch = records
        texts = records.column(self._task.value)
        rows = self._decoder.decode(Records(texts, self._place, unit="row")).rows
        self._first += records.num_rows
        if self._task.is_partial:  # such a table takes no before-images
            rows = rows.filter(pc.not_equal(rows.column(ROW_KIND), "-U"))
        return rows

    def bad(self) -> pa.Table | None:
        found, self._bad = self._bad, []
        return rows_of(found) if found else None

    def _refuse(self, bad: BadRecord) -> None:
        batch, row = self._batch, bad.number
        assert batch is not None
        if all(name in batch.schema.names for name in _PLACE):
            topic, partition, offset = (batch.column(name)[row].as_py() for name in _PLACE)
            source = f"topic {topic!r} partition {partition}"
            bad = replace(bad, source=source, number=offset, unit="offset")
        else:
            bad = replace(bad, number=self._first + row)
        if not self._task.keeps_bad:
            raise bad.error()
        self._bad.append(bad)


def _of_words(df: Frame, column: str | None, words: Mapping[str, str] | None) -> Frame:
    if column is None:
        raise OptionError(f"format {ROW_KINDS!r} needs row_kinds, the column that holds the words")
    known = WORDS if words is None else words
    cases = " ".join(
        f"WHEN {_text(word.upper())} THEN {_text(kind)}" for word, kind in known.items()
    )
    name = "`" + column.replace("`", "``") + "`"
    return df.selectExpr("*", f"CASE upper({name}) {cases} END AS {ROW_KIND}").drop(column)


def _text(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'"
