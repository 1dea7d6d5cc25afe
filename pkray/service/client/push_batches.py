"""Gather rows into batches that are worth a push."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

PUSH_ROWS = 1 << 17
PUSH_BYTES = 32 << 20
"""Rows pushed at a time: so many that a push is worth its call, so few that a task can hold
them."""


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in fewer batches: small ones cost a call each."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= PUSH_ROWS or size >= PUSH_BYTES:
            yield pa.concat_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_batches(held)
