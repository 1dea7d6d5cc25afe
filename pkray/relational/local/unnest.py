"""Table functions: rows that are made of a row, in pieces of bounded size.

A maker says how many rows it makes of each row, and how columns of any of them are made: what comes
out is never there as a whole.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import batch_of, typed
from pkray.columns.keys import list_parts
from pkray.errors import EvaluationError
from pkray.relational.functions.outputs import row_sizes
from pkray.relational.local.engine import BATCH_ROWS, Engine, Skip, Step, operator
from pkray.relational.local.threads import ahead
from pkray.relational.plan.nodes import Unnest

PIECE_BYTES = 16 << 20
"""About as much of the columns that are repeated comes out at once, and a row at least."""

Places: TypeAlias = np.ndarray
Columns: TypeAlias = Callable[[np.ndarray, Places, np.ndarray], list[pa.Array]]
"""Takes numbers of rows, places from 0 among the rows that each of them makes, and which of them
make nothing and come out as NULLs: int64, int64 and bool, one a row that comes out.
"""
Made: TypeAlias = tuple[np.ndarray, Columns]
Pieces: TypeAlias = Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]]


@operator(Unnest)
def unnested(node: Unnest, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Give a row for each row that the function makes; the first piece is made on a thread."""
    pieces = _skipping(pieces_of(node), engine.skip)

    def begun(batch: pa.RecordBatch) -> tuple[pa.RecordBatch | None, Iterator[pa.RecordBatch]]:
        made = pieces(batch)
        return next(made, None), made

    for first, rest in ahead(begun, engine.batches(node.input)):
        if first is not None:
            yield first
            yield from rest


def at_once(node: Unnest) -> Step:
    """Give what is made of a batch in one batch."""
    pieces, schema = pieces_of(node), node.fields.arrow

    def unnest(batch: pa.RecordBatch) -> pa.RecordBatch:
        made = list(pieces(batch))
        empty = [pa.array([], field.type) for field in schema]
        return pa.concat_batches(made) if made else batch_of(empty, schema, 0)

    return unnest


def _skipping(pieces: Pieces, skip: Skip | None) -> Pieces:
    """Leave out the rows that the function cannot take; which is known before the first piece."""
    if skip is None:
        return pieces

    def computed(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        made = pieces(batch)
        try:
            first = next(made, None)
        except EvaluationError as error:
            half = batch.num_rows // 2
            if not half:
                skip(batch, str(error))
                return
            yield from computed(batch.slice(0, half))
            yield from computed(batch.slice(half))
            return
        if first is not None:
            yield first
            yield from made

    return computed


def pieces_of(node: Unnest) -> Pieces:
    """Make what gives the rows that are made of a batch, in pieces."""
    schema = node.fields.arrow
    kept = node.input.fields.names if node.keeps is None else node.keeps
    kinds = [field.type for field in schema][len(kept) :]
    make = _MAKERS.get(node.function, _by_udf)

    def unnest(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        lengths, columns_of = make(node, [batch[name] for name in node.arguments], batch.num_rows)
        passed = [batch[name] for name in kept]
        times = np.maximum(lengths, 1) if node.outer else lengths
        for rows, places in _cut(times, passed):
            taken = pa.array(rows)
            made = columns_of(rows, places, lengths[rows] == 0)
            yield batch_of(
                [
                    *(column.take(taken) for column in passed),
                    *(typed(column, kind) for column, kind in zip(made, kinds, strict=True)),
                ],
                schema,
                len(rows),
            )

    return unnest


def _cut(times: np.ndarray, passed: Sequence[pa.Array]) -> Iterator[tuple[np.ndarray, Places]]:
    """Cut what comes out into pieces of at most `BATCH_ROWS`, and about `PIECE_BYTES`.

    Args:
        times: int64, how many rows come out of each row.
        passed: the columns that are repeated.

    Yields:
        for each row that comes out the row that it is made of, and its place among those.
    """
    ends = np.cumsum(times)
    total = int(ends[-1]) if len(ends) else 0
    begins = ends - times
    whole = sum(column.nbytes for column in passed)
    sizes = None
    if whole * int(times.max(initial=0)) > PIECE_BYTES:
        sizes = row_sizes(passed, len(times))
    start = 0
    while start < total:
        end = min(start + BATCH_ROWS, total)
        low, high = np.searchsorted(ends, [start, end - 1], side="right")
        inside = slice(low, high + 1)
        counts = np.minimum(ends[inside], end) - np.maximum(begins[inside], start)
        rows = np.repeat(np.arange(low, high + 1), counts)
        if sizes is not None:
            fit = np.searchsorted(np.cumsum(sizes[rows]), PIECE_BYTES, side="right")
            rows = rows[: max(int(fit), 1)]
        yield rows, np.arange(start, start + len(rows)) - begins[rows]
        start += len(rows)


def _exploded(node: Unnest, arguments: Sequence[pa.Array], rows: int) -> Made:
    """Give an array's elements, or a map's keys and values."""
    starts, lengths, children = list_parts(arguments[0])

    def columns(rows: np.ndarray, places: Places, none: np.ndarray) -> list[pa.Array]:
        chosen = pa.array(starts[rows] + places, mask=none)
        return [child.take(chosen) for child in children]

    return lengths, columns


def _numbered(node: Unnest, arguments: Sequence[pa.Array], rows: int) -> Made:
    """Give the elements, each after its place from 0."""
    lengths, elements = _exploded(node, arguments, rows)

    def columns(rows: np.ndarray, places: Places, none: np.ndarray) -> list[pa.Array]:
        return [pa.array(places, mask=none), *elements(rows, places, none)]

    return lengths, columns


def _inlined(node: Unnest, arguments: Sequence[pa.Array], rows: int) -> Made:
    """Give the fields of an array's ROWs; of a NULL among them, NULLs."""
    lengths, elements = _exploded(node, arguments, rows)

    def columns(rows: np.ndarray, places: Places, none: np.ndarray) -> list[pa.Array]:
        (structs,) = elements(rows, places, none)
        return list(structs.flatten())

    return lengths, columns


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

    def columns(rows: np.ndarray, places: Places, none: np.ndarray) -> list[pa.Array]:
        return [pa.array(start[rows] + places * stride[rows], mask=none)]

    return lengths, columns


def _by_udf(node: Unnest, arguments: Sequence[pa.Array], rows: int) -> Made:
    """Ask a user's function: it gives the number of each row's argument, and the columns."""
    numbers, found = node.udf.expand(arguments, rows)
    lengths = np.bincount(np.asarray(numbers), minlength=rows).astype(np.int64)
    begins = np.cumsum(lengths) - lengths

    def columns(rows: np.ndarray, places: Places, none: np.ndarray) -> list[pa.Array]:
        chosen = pa.array(begins[rows] + places, mask=none)
        return [typed(column, column.type).take(chosen) for column in found]

    return lengths, columns


_MAKERS: dict[str, Callable[[Unnest, Sequence[pa.Array], int], Made]] = {
    "explode": _exploded,
    "posexplode": _numbered,
    "inline": _inlined,
    "sequence_rows": _sequence,
    "udtf": _by_udf,
}
