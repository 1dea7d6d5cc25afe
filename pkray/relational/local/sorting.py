"""Order: sorts, the first rows of each partition, the first or last row of a key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from pkray.relational.local.batches import (
    batches_of,
    gathered,
    in_one_piece,
    table_of,
    with_schema,
)
from pkray.relational.local.engine import Engine, operator
from pkray.relational.local.keys import argsort, begins, codes, ranks, sort_rows
from pkray.relational.plan.expressions import SortKey
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.nodes import Deduplicate, Node, Sort, TopN

REDUCE_ROWS = 1 << 20
"""Rows that are held before those that surely do not stay are let go of."""


@operator(Sort)
def sort(node: Sort, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Order all rows."""
    table = in_one_piece(engine.table(node.input))
    ordered = gathered(table, sort_rows(table, node.order_by))
    yield from batches_of(ordered, engine.batch_rows)


def first_rows(node: Sort, engine: Engine, count: int) -> Iterator[pa.RecordBatch]:
    """Order the rows that come first; no more than these are held for long."""

    def first(table: pa.Table) -> np.ndarray:
        return sort_rows(table, node.order_by)[:count]

    kept = _reduced(node, engine, first)
    yield from batches_of(gathered(kept, sort_rows(kept, node.order_by)), engine.batch_rows)


@operator(TopN)
def top(node: TopN, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Keep rows of each partition by their number in the order."""
    kept = _reduced(node, engine, lambda table: np.sort(_numbered(table, node, 1)[0]))
    rows, numbers = _numbered(kept, node, node.start)
    yield from _ranked(gathered(kept, rows), numbers, node.rank_name, node.fields, engine)


def _numbered(table: pa.Table, node: TopN, start: int) -> tuple[np.ndarray, np.ndarray]:
    """Give the rows from `start` to the node's end of each partition, and their numbers."""
    rows, numbers = numbered(table, node.partition_by, node.order_by)
    kept = (numbers >= start) & (numbers <= node.end)
    return rows[kept], numbers[kept]


def numbered(
    table: pa.Table, partition_by: Sequence[str], order_by: Sequence[SortKey]
) -> tuple[np.ndarray, np.ndarray]:
    """Sort by partition and order.

    Returns:
        int64 row numbers in that order, and beside each its number in its partition, from 1.
    """
    partitions = codes([table[name] for name in partition_by], table.num_rows).of_row
    order = [rank for key in order_by for rank in ranks(table[key.column], key)]
    rows = argsort([partitions, *order], table.num_rows)
    starts = np.flatnonzero(begins([partitions[rows]], len(rows)))
    lengths = np.diff(np.append(starts, len(rows)))
    return rows, np.arange(len(rows)) - np.repeat(starts, lengths) + 1


@operator(Deduplicate)
def deduplicate(node: Deduplicate, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Keep one row a key; of equal times the first, or the last where the last is kept."""
    kept = _reduced(node, engine, lambda table: _singled(table, node))
    ones = np.ones(kept.num_rows, np.int64)
    yield from _ranked(kept, ones, node.rank_name, node.fields, engine)


def _singled(table: pa.Table, node: Deduplicate) -> np.ndarray:
    keys = codes([table[name] for name in node.keys], table.num_rows).of_row
    order = [] if node.order_by is None else ranks(table[node.order_by], SortKey(node.order_by))
    rows = argsort([keys, *order], table.num_rows)
    first = begins([keys[rows]], len(rows))
    chosen = first if node.keep_first else np.append(first[1:], True)[: len(rows)]
    return np.sort(rows[chosen])


def _ranked(
    table: pa.Table, numbers: np.ndarray, name: str | None, fields: Fields, engine: Engine
) -> Iterator[pa.RecordBatch]:
    if name is not None:
        table = table.append_column(name, pa.array(numbers))
    yield from batches_of(with_schema(table, fields.arrow), engine.batch_rows)


def _reduced(node: Node, engine: Engine, choose: Callable[[pa.Table], np.ndarray]) -> pa.Table:
    """Collect the rows that `choose` keeps, in their order; let go of others as they come."""
    (source,) = node.inputs
    held: list[pa.RecordBatch] = []
    size, limit = 0, REDUCE_ROWS
    for batch in engine.batches(source):
        held.append(batch)
        size += batch.num_rows
        if size > limit:
            held = list(engine.held(node, _chosen(held, source.fields, choose)))
            size = sum(kept.num_rows for kept in held)
            limit = max(REDUCE_ROWS, 2 * size)
    return table_of(_chosen(held, source.fields, choose), source.fields)


def _chosen(
    held: Iterable[pa.RecordBatch], fields: Fields, choose: Callable[[pa.Table], np.ndarray]
) -> list[pa.RecordBatch]:
    table = in_one_piece(table_of(held, fields))
    return list(batches_of(gathered(table, choose(table)), max(table.num_rows, 1)))
