"""The rows that queries give, as users have them: INTERVALs as durations.

Intervals of days and hours are Arrow's ``duration[us]``, as Spark's Python has them; those of years
and months are ``month_day_nano_interval``, for which Spark's Python has no value.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pkray.errors import EvaluationError, InputError
from pkray.relational.functions import spans
from pkray.relational.plan.fields import Fields
from pkray.schema.types import DataType, interval_type

_MONTHS = pa.month_day_nano_interval()
_DURATION = pa.duration("us")


def arrow_schema(fields: Fields) -> pa.Schema:
    """Give the Arrow schema of a query's result."""
    return pa.schema(
        [
            each.with_type(_arrow(field.type)) if field.type.span else each
            for each, field in zip(fields.arrow, fields, strict=True)
        ]
    )


def shown(batches: Iterator[pa.RecordBatch], fields: Fields) -> Iterator[pa.RecordBatch]:
    """Turn the intervals of batches into what users have them as.

    Raises:
        EvaluationError: more months than 32 bits hold.
    """
    if not any(field.type.span for field in fields):
        return batches
    return _shown(batches, fields)


def _shown(batches: Iterator[pa.RecordBatch], fields: Fields) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(fields)
    for batch in batches:
        columns = [
            _interval(column, field.type) if field.type.span else column
            for column, field in zip(batch.columns, fields, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _arrow(kind: DataType) -> pa.DataType:
    return _MONTHS if spans.is_months(kind) else _DURATION


def _interval(column: pa.Array, kind: DataType) -> pa.Array:
    if not spans.is_months(kind):
        return column.cast(_DURATION)
    months = np.asarray(column.fill_null(0))
    if len(months) and int(np.abs(months).max()) > 2**31 - 1:
        raise EvaluationError(f"an INTERVAL {kind.span} has more than {2**31 - 1} months")
    parts = np.zeros(len(months), [("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])
    parts["months"] = months
    valid = None if not column.null_count else pa.array(np.asarray(column.is_valid())).buffers()[1]
    return pa.Array.from_buffers(_MONTHS, len(months), [valid, pa.py_buffer(parts.tobytes())])


def taken(table: pa.Table) -> tuple[pa.Table, dict[str, DataType]]:
    """Turn durations and months of a user's rows into numbers; give their types by column.

    Raises:
        InputError: days or nanoseconds beside months, or a duration finer than microseconds.
    """
    types: dict[str, DataType] = {}
    for place, field in enumerate(table.schema):
        if pa.types.is_duration(field.type):
            try:
                numbers = table.column(place).cast(_DURATION).cast(pa.int64())
            except pa.ArrowInvalid as error:
                raise InputError(f"column {field.name!r}: {error}", column=field.name) from None
            kind = interval_type(("DAY", "SECOND"), nullable=field.nullable)
        elif field.type == _MONTHS:
            numbers = _months(table.column(place), field.name)
            kind = interval_type(("YEAR", "MONTH"), nullable=field.nullable)
        else:
            continue
        types[field.name] = kind
        table = table.set_column(place, field.with_type(pa.int64()), numbers)
    return table, types


def _months(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], _MONTHS)
    layout = [("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")]
    buffer = whole.buffers()[1]
    parts = np.frombuffer(buffer or b"", layout)[whole.offset : whole.offset + len(whole)]
    valid = np.asarray(whole.is_valid())
    if (parts["days"][valid] != 0).any() or (parts["nanos"][valid] != 0).any():
        raise InputError(
            f"column {name!r} holds intervals of months and days: give months, or a duration",
            column=name,
        )
    return pa.chunked_array([pa.array(parts["months"].astype(np.int64), mask=~valid)])
