"""DataFrames of records, batch or streaming, as changes that ingest takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pkray.cdc.avro.schemas import AvroSchemas, Given
from pkray.cdc.decoder import BadRecord, ChangeFormat, Decoder, Records
from pkray.cdc.kinds import WORDS
from pkray.cdc.readings import Handling
from pkray.cdc.row_changes import ROW_KIND, Target, no_rows
from pkray.errors import InputError, OptionError
from pkray.rows.input import Missing
from pkray.spark.arguments import Frame, check_dataframe, check_table
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

    Returns:
        A DataFrame of the table's columns, and ``_row_kind``. A record that cannot be read ends
        the job: ingest raises its `ChangeRecordError`, which names topic, partition and offset
        where the DataFrame has them. A value that did not change and that the event does not bring
        is null for a partial-update table, and ends the job for others.

    Raises:
        InputError: ``value`` is no such column.
    """
    check_dataframe("changes", df)
    check_table("changes", table)
    if format == ROW_KINDS:
        return _of_words(df, row_kinds, words)
    known = {field.name: field.dataType.simpleString() for field in df.schema}
    if known.get(value) not in ("string", "binary"):
        raise InputError(
            f"column {value!r} is to hold records, text or binary: the DataFrame has "
            f"{', '.join(f'{name} {kind}' for name, kind in known.items())}",
            column=value,
        )
    target = Target.from_schema(table.schema, metadata, may_lack=missing == "null")
    handling = Handling(decimal_handling_mode, time_precision_mode, binary_handling_mode)
    is_partial = table.schema.core.merge_engine == "partial-update"
    schemas = AvroSchemas.given(avro_schema)
    task = _Task(ChangeFormat.named(format), target, handling, value, is_partial, FRAMES, schemas)
    task.decoder(_refuse)  # what is not read is refused here
    place = [name for name in _PLACE if name in known]
    schema = spark_schema(no_rows(target).schema)
    return df.select(value, *(name for name in place if name != value)).mapInArrow(task, schema)


def _refuse(bad: BadRecord) -> None:
    raise bad.error()


@dataclass(frozen=True)
class _Task:
    """Decodes a partition's records on an executor."""

    format: ChangeFormat
    target: Target
    handling: Handling
    value: str
    is_partial: bool
    errors: ErrorChannel
    schemas: AvroSchemas

    def decoder(self, on_bad: Callable[[BadRecord], None]) -> Decoder:
        unavailable: Any = "null" if self.is_partial else "refuse"
        return Decoder(
            self.format,
            self.target,
            self.handling,
            unavailable=unavailable,
            on_bad=on_bad,
            schemas=self.schemas,
        )

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = exchange_schema(no_rows(self.target).schema)
        with self.errors.reported():
            place = _Place()
            decoder = self.decoder(place.refuse)
            for batch in batches:
                place.batch = batch
                records = Records(batch.column(self.value), "the DataFrame", unit="row")
                rows = decoder.decode(records).rows
                if self.is_partial:  # such a table takes no before-images
                    rows = rows.filter(pc.not_equal(rows.column(ROW_KIND), "-U"))
                for part in rows.combine_chunks().to_batches():
                    yield to_exchange(part, schema)


class _Place:
    """Names a record by its place in Kafka, where the DataFrame says it."""

    batch: pa.RecordBatch

    def refuse(self, bad: BadRecord) -> None:
        names = self.batch.schema.names
        if all(name in names for name in _PLACE):
            topic, partition, offset = (self.batch.column(n)[bad.number].as_py() for n in _PLACE)
            source = f"topic {topic!r} partition {partition}"
            bad = replace(bad, source=source, number=offset, unit="offset")
        raise bad.error()


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
