"""Rows of DataFrames into spools: tasks write Arrow files, the driver names them in a batch."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from pkray.schema.casts import cast_column
from pkray.schema.row_kind import DELETE, UPDATE_BEFORE, parse
from pkray.schema.types import DataType
from pkray.service.client.push_batches import gathered
from pkray.spark.failure import ErrorChannel
from pkray.storage.spool import Spool, SpoolFile

_SMALL_BYTES = 1 << 20
"""Below it a process of Python beside each task costs more than the rows."""


@dataclass(frozen=True)
class SpooledRows:
    """Lays out the rows of a DataFrame in a spool.

    Attributes:
        columns: names and types, in the order of the DataFrame's.
        schema: of the files.
        row_kinds: the column that says what each row does; None: all are added.
        kinds: its name in the files, where it is the last column and int8.
        by_key: whether a row before an update is to take its key's row away by itself.
    """

    columns: tuple[tuple[str, DataType], ...]
    schema: pa.Schema
    row_kinds: str | None = None
    kinds: str | None = None
    by_key: bool = False

    def fitted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Cast rows to the columns.

        Raises:
            InputError: a kind that is none, or a value that does not fit.
        """
        table = pa.Table.from_batches([rows])
        columns = [
            cast_column(table.column(name), kind, name).combine_chunks()
            for name, kind in self.columns
        ]
        if self.row_kinds is not None:
            kinds = parse(table.column(self.row_kinds), self.row_kinds).to_numpy()
            kinds = np.where(kinds == UPDATE_BEFORE, DELETE, kinds) if self.by_key else kinds
            columns.append(pa.array(kinds.astype(np.int8)))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def spool_rows(frame: DataFrame, spool: Spool, number: int, rows: SpooledRows) -> list[SpoolFile]:
    """Write the rows of a DataFrame into files of a spool, by its tasks; few by the driver.

    Returns:
        the files, in the order of the partitions.

    Raises:
        InputError: rows that do not fit.
        ServiceError: the job failed.
    """
    errors = ErrorChannel()
    with errors.recovered():
        if _is_small(frame):
            fitted = map(rows.fitted, frame.toArrow().to_batches())
            file = spool.write_file(number, rows.schema, fitted)
            return [] if file is None else [file]
        job = frame.mapInArrow(_task(spool, number, rows, errors), "file binary")
        told = [bytes(row[0]) for row in job.collect()]
    return [msgspec.json.decode(each, type=SpoolFile) for each in told]


def _is_small(frame: DataFrame) -> bool:
    """Whether Spark takes the rows for so few that one file of the driver's costs less."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    return int(plan.stats().sizeInBytes()) <= _SMALL_BYTES


def _task(spool: Spool, number: int, rows: SpooledRows, errors: ErrorChannel) -> Task:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with errors.reported():
            fitted = (rows.fitted(batch) for batch in gathered(batches))
            file = spool.write_file(number, rows.schema, fitted)
        if file is not None:
            told: Sequence[bytes] = [msgspec.json.encode(file)]
            yield pa.RecordBatch.from_arrays([pa.array(told, pa.binary())], names=["file"])

    return write
