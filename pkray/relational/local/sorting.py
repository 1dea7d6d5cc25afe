"""Order: sorts, the first rows of each partition, the first or last row of a key."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa

from pkray.columns.batches import batches_of, gathered, in_one_piece, parts, table_of, with_schema
from pkray.columns.keys import argsort, begins, codes, ranks, sort_rows
from pkray.relational.local.engine import Engine, operator
from pkray.relational.local.memory import Memory, can_divide, drained
from pkray.relational.plan.expressions import SortKey
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.nodes import Deduplicate, Node, Sort, TopN
from pkray.storage.spill import SpilledBatches

MERGED_RUNS = 16
"""Sorted runs that are merged at once: a block of each is in memory."""

REDUCE_ROWS = 1 << 20
"""Rows that are held before those that surely do not stay are let go of."""


@operator(Sort)
def sort(node: Sort, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Order all rows."""
    yield from _ordered(node, engine.batches(node.input), engine)


def _ordered(
    node: Sort, rows: Iterator[pa.RecordBatch], engine: Engine
) -> Iterator[pa.RecordBatch]:
    """Order rows: at once if they can be held, otherwise in runs that are merged."""
    taken, more = engine.memory.first(rows)
    if more:
        runs = _runs(chain(drained(taken), rows), node.order_by, engine.memory)
        tables = merged_runs(runs, node.order_by)
    else:
        tables = iter([_sorted(table_of(taken, node.input.fields.arrow), node.order_by)])
    for table in tables:
        yield from batches_of(table, engine.batch_rows)


def _sorted(table: pa.Table, order_by: Sequence[SortKey]) -> pa.Table:
    table = in_one_piece(table)
    return gathered(table, sort_rows(table, order_by))


def _runs(
    rows: Iterator[pa.RecordBatch], order_by: Sequence[SortKey], memory: Memory
) -> list[SpilledBatches]:
    """Sort pieces of the rows and set them aside; equal rows of earlier pieces come first."""
    runs: list[SpilledBatches] = []
    for table in parts(rows, None, 2 * memory.piece):
        run = _sorted(table, order_by)
        block = memory.piece * run.num_rows // (MERGED_RUNS * max(run.nbytes, 1))
        runs.append(memory.set_aside(batches_of(run, max(block, 1))))
    while len(runs) > MERGED_RUNS:
        groups = [runs[i : i + MERGED_RUNS] for i in range(0, len(runs), MERGED_RUNS)]
        runs = [
            memory.set_aside(
                batch
                for table in merged_runs(group, order_by)
                for batch in batches_of(in_one_piece(table), table.num_rows)
            )
            for group in groups
        ]
    return runs


def merged_runs(runs: Sequence[SpilledBatches], order_by: Sequence[SortKey]) -> Iterator[pa.Table]:
    """Merge sorted runs, a block of each at a time; equal rows of earlier runs come first."""
    open_runs = [_Run(run) for run in runs]
    while open_runs := [run for run in open_runs if run.filled()]:
        last = pa.concat_tables(run.block.slice(run.block.num_rows - 1) for run in open_runs)
        bound = int(sort_rows(last, order_by)[0])  # no later block has rows before this run's last
        firsts = pa.concat_tables(
            [*(run.block.slice(0, 1) for run in open_runs), last.slice(bound, 1)]
        )
        begun = sort_rows(firsts, order_by).tolist()
        chosen = sorted(begun[: begun.index(len(open_runs))])
        blocks = [open_runs[number].block for number in chosen]
        sizes = [block.num_rows for block in blocks]
        order = sort_rows(pa.concat_tables(blocks), order_by)
        ends = np.cumsum(sizes)
        until = int(np.flatnonzero(order == ends[chosen.index(bound)] - 1)[0]) + 1
        taken = np.bincount(np.searchsorted(ends, order[:until], "right"), minlength=len(blocks))
        yield gathered(in_one_piece(pa.concat_tables(blocks)), order[:until])
        for number, count in zip(chosen, taken, strict=True):
            open_runs[number].skip(int(count))


class _Run:
    """A sorted run, of which a block is in memory."""

    def __init__(self, run: SpilledBatches) -> None:
        self._rest = parts(run.read(), 1)
        self.block = next(self._rest)
        self._rows = self.block.num_rows

    def filled(self) -> bool:
        """Read on if less than half a block is left; return whether there is a row."""
        while 2 * self.block.num_rows < self._rows and (more := next(self._rest, None)) is not None:
            self.block = pa.concat_tables([self.block, more])
        return self.block.num_rows > 0

    def skip(self, rows: int) -> None:
        """Leave rows behind."""
        self.block = self.block.slice(rows)


def first_rows(node: Sort, engine: Engine, count: int) -> Iterator[pa.RecordBatch]:
    """Order the rows that come first; no more than these are held for long."""

    def first(table: pa.Table) -> np.ndarray:
        return sort_rows(table, node.order_by)[:count]

    rows = engine.batches(node.input)
    one = next(rows, None)
    if one is None:
        return
    rows = chain([one], rows)
    if count * one.nbytes / one.num_rows > engine.memory.share / 2:
        yield from _ordered(node, rows, engine)
        return
    for kept in _reduced(node, rows, (), engine.memory, first):
        yield from batches_of(_sorted(kept, node.order_by), engine.batch_rows)


@operator(TopN)
def top(node: TopN, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Keep rows of each partition by their number in the order."""

    def choose(table: pa.Table) -> np.ndarray:
        return np.sort(_numbered(table, node, 1)[0])

    rows = engine.batches(node.input)
    for kept in _reduced(node, rows, node.partition_by, engine.memory, choose):
        chosen, numbers = _numbered(kept, node, node.start)
        yield from _ranked(gathered(kept, chosen), numbers, node.rank_name, node.fields, engine)


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
    rows, choose = engine.batches(node.input), partial(_singled, node)
    for kept in _reduced(node, rows, node.keys, engine.memory, choose):
        ones = np.ones(kept.num_rows, np.int64)
        yield from _ranked(kept, ones, node.rank_name, node.fields, engine)


def _singled(node: Deduplicate, table: pa.Table) -> np.ndarray:
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


def _reduced(
    node: Node,
    batches: Iterator[pa.RecordBatch],
    keys: Sequence[str],
    memory: Memory,
    choose: Callable[[pa.Table], np.ndarray],
    level: int = 0,
) -> Iterator[pa.Table]:
    """Collect the rows that `choose` keeps, in their order; let go of others as they come.

    What is kept of a key does not depend on other keys: what cannot be held is divided by them.
    """
    fields = node.inputs[0].fields
    held: list[pa.RecordBatch] = []
    count, size, limit, most = 0, 0, REDUCE_ROWS, memory.share
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        if count <= limit and size <= most:
            continue
        held = _chosen(held, fields, choose)
        count, size = sum(kept.num_rows for kept in held), sum(kept.nbytes for kept in held)
        limit, most = max(REDUCE_ROWS, 2 * count), max(memory.share, 2 * size)
        if size > memory.share / 2 and can_divide(keys, level):
            break
        held = list(memory.held(node, held))
    else:
        yield table_of(_chosen(held, fields, choose), fields.arrow)
        return
    for part in memory.divided(chain(drained(held), batches), keys, level):
        if part.rows:
            yield from _reduced(node, part.read(), keys, memory, choose, level + 1)


def _chosen(
    held: Iterable[pa.RecordBatch], fields: Fields, choose: Callable[[pa.Table], np.ndarray]
) -> list[pa.RecordBatch]:
    table = in_one_piece(table_of(held, fields.arrow))
    return list(batches_of(gathered(table, choose(table)), max(table.num_rows, 1)))
