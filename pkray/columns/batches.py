"""Batches and tables of exact types, also without columns."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pkray.schema.casts import relabelled


def batch_of(
    arrays: Sequence[pa.Array | pa.ChunkedArray], schema: pa.Schema, rows: int
) -> pa.RecordBatch:
    """Make a batch of columns; types that hold the same values are cast to the schema's."""
    if not len(schema):
        nothing = pa.StructArray.from_buffers(pa.struct([]), rows, [None])
        return pa.RecordBatch.from_struct_array(nothing)
    columns = [typed(array, field.type) for array, field in zip(arrays, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def typed(array: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Give one array of exactly this type; one that differs only in names of parts, and in what
    cannot be NULL, keeps its bytes."""
    array = whole(array)
    if array.type.equals(kind):
        return array
    return relabelled(array, kind) if _is_alike(array.type, kind) else array.cast(kind)


def _is_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether nested types hold the same bytes."""
    if one.id != other.id or one.num_fields != other.num_fields:
        return False
    if not one.num_fields or pa.types.is_dictionary(one) or pa.types.is_union(one):
        return one.equals(other)
    if pa.types.is_fixed_size_list(one) and one.list_size != other.list_size:
        return False
    return all(
        _is_alike(one.field(part).type, other.field(part).type) for part in range(one.num_fields)
    )


def whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Give one array for a column in chunks."""
    if isinstance(array, pa.Array):
        return array
    if array.num_chunks == 1:
        return array.chunk(0)
    return array.combine_chunks()


def table_of(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Collect batches."""
    kept = list(batches)
    return pa.Table.from_batches(kept or [batch_of(_empty(schema), schema, 0)])


def _empty(schema: pa.Schema) -> list[pa.Array]:
    return [pa.array([], field.type) for field in schema]


def with_schema(table: pa.Table | pa.RecordBatch, schema: pa.Schema) -> Any:
    """Give the same columns, by position, under the schema's names and exact types."""
    if not len(schema):
        empty = batch_of((), schema, table.num_rows)
        return empty if isinstance(table, pa.RecordBatch) else pa.Table.from_batches([empty])
    if isinstance(table, pa.RecordBatch):
        return batch_of(table.columns, schema, table.num_rows)
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def batches_of(table: pa.Table, rows: int) -> Iterator[pa.RecordBatch]:
    """Cut a table into batches of at most so many rows, without copies; none is empty."""
    if table.num_columns:
        yield from (batch for batch in table.to_batches(max_chunksize=rows) if batch.num_rows)
    elif table.num_rows:
        yield batch_of((), table.schema, table.num_rows)


def parts(
    batches: Iterable[pa.RecordBatch], rows: int | None, size: int | None = None
) -> Iterator[pa.Table]:
    """Join batches to tables of at least so many rows, or bytes; None: no matter how many."""
    held: list[pa.RecordBatch] = []
    count = taken = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        taken += batch.nbytes if size is not None else 0
        if (rows is not None and count >= rows) or (size is not None and taken >= size):
            yield pa.Table.from_batches(held)
            held, count, taken = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def cut(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch into pieces of at most so many rows; none is empty."""
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows) if batch.num_rows > rows else batch


def gathered(table: pa.Table, rows: np.ndarray | pa.Array) -> pa.Table:
    """Take rows by number; NULL numbers give rows of NULLs."""
    if not table.num_columns:
        return pa.Table.from_batches([batch_of((), table.schema, len(rows))])
    if isinstance(rows, pa.Array):
        return table.take(rows)
    if len(rows) == table.num_rows and bool((rows == np.arange(len(rows))).all()):
        return table
    return table.take(pa.array(rows))


def in_one_piece(table: pa.Table) -> pa.Table:
    """Give each column in one chunk, so that rows are taken by number at once."""
    return table.combine_chunks() if table.num_columns else table


def spread(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """List the numbers of ranges, one range after another: starts[i] … starts[i] + lengths[i]."""
    total = int(lengths.sum())
    if not total:
        return np.zeros(0, np.int64)
    begins = np.cumsum(lengths) - lengths
    return np.arange(total, dtype=np.int64) + np.repeat(starts - begins, lengths)
