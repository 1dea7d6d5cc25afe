"""Table functions: rows that are made of a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError
from pkray.relational.local.batches import batch_of, spread, typed
from pkray.relational.local.engine import Step, step
from pkray.relational.local.keys import list_parts
from pkray.relational.plan.nodes import Unnest


@step(Unnest)
def unnested(node: Unnest) -> Step:
    """Give a row for each row that the function makes."""
    schema = node.fields.arrow
    kinds = [field.type for field in schema][len(node.input.fields) :]
    make = _MAKERS.get(node.function, _by_udf)

    def unnest(batch: pa.RecordBatch) -> pa.RecordBatch:
        arguments = [batch[name] for name in node.arguments]
        lengths, columns = make(node, arguments, batch.num_rows)
        rows = np.repeat(np.arange(batch.num_rows), lengths)
        if node.outer and (lengths == 0).any():
            rows, taken = _with_outer(lengths)
            columns = [typed(column, column.type).take(taken) for column in columns]
        kept = batch.take(pa.array(rows)).columns if batch.num_columns else []
        made = [typed(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        return batch_of([*kept, *made], schema, len(rows))

    return unnest


def _with_outer(lengths: np.ndarray) -> tuple[np.ndarray, pa.Array]:
    """Give each row at least once; what is made for a row without rows is NULL."""
    times = np.maximum(lengths, 1)
    rows = np.repeat(np.arange(len(lengths)), times)
    empty = np.repeat(lengths == 0, times)
    return rows, pa.array(np.cumsum(~empty) - 1, mask=empty)


Made = tuple[np.ndarray, list[pa.Array]]


def _exploded(node: Unnest, arguments: Sequence[pa.Array], rows: int) -> Made:
    """Give an array's elements, or a map's keys and values."""
    starts, lengths, children = list_parts(arguments[0])
    places = pa.array(spread(starts, lengths))
    return lengths, [child.take(places) for child in children]


def _numbered(node: Unnest, arguments: Sequence[pa.Array], rows: int) -> Made:
    """Give the elements, each after its place from 0."""
    lengths, columns = _exploded(node, arguments, rows)
    return lengths, [pa.array(spread(np.zeros(rows, np.int64), lengths)), *columns]


def _inlined(node: Unnest, arguments: Sequence[pa.Array], rows: int) -> Made:
    """Give the fields of an array's ROWs; of a NULL among them, NULLs."""
    lengths, (structs,) = _exploded(node, arguments, rows)
    return lengths, structs.flatten()


def _sequence(node: Unnest, arguments: Sequence[pa.Array], rows: int) -> Made:
    """Count from the first to the second argument by the third, 1 if there is none."""
    known = np.ones(rows, bool)
    for argument in arguments:
        known &= np.asarray(argument.is_valid())
    start, stop, *by = (
        np.asarray(pc.fill_null(argument.cast(pa.int64()), 0)) for argument in arguments
    )
    one = np.where(stop >= start, 1, -1)
    stride = by[0] if by else one
    if (stride[known] == 0).any():
        raise EvaluationError("a sequence by 0 never ends: give another step")
    steps = (stop - start) // np.where(stride == 0, 1, stride) + 1
    lengths = np.where(known, np.maximum(steps, 0), 0)
    places = spread(np.zeros(rows, np.int64), lengths)
    values = np.repeat(start, lengths) + places * np.repeat(stride, lengths)
    return lengths, [pa.array(values)]


def _by_udf(node: Unnest, arguments: Sequence[pa.Array], rows: int) -> Made:
    """Ask a user's function: it gives the number of each row's argument, and the columns."""
    numbers, columns = node.udf.expand(arguments, rows)
    lengths = np.bincount(np.asarray(numbers), minlength=rows).astype(np.int64)
    return lengths, list(columns)


_MAKERS: dict[str, Callable[[Unnest, Sequence[pa.Array], int], Made]] = {
    "explode": _exploded,
    "posexplode": _numbered,
    "inline": _inlined,
    "sequence_rows": _sequence,
    "udtf": _by_udf,
}
