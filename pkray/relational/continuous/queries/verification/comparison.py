"""Compare two results as bags of rows, in bounded memory.

::

    both ──▶ keys of whole rows ──▶ divided by their hashes where they do not fit ──▶ part by part
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pkray.columns.batches import whole
from pkray.columns.keys import codes
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.local.memory import Memory, Side
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.nodes import Values
from pkray.schema.types import DataType

SHOWN_ROWS = 100
"""Rows of each kind that a report holds: enough to see what is wrong, and few enough to print."""
HELD_BYTES = 256 << 20
"""What a comparison holds, about, where nothing is said: the runs beside it need memory too."""
_KEY = "$key"
_KEYED = Field(_KEY, DataType("BYTES", nullable=False))


@dataclass(frozen=True)
class Surplus:
    """Rows that one side has more often than the other.

    Attributes:
        rows: how many.
        first: some of them, `SHOWN_ROWS` at most.
    """

    rows: int
    first: pa.Table


def differences(
    expected: Iterable[pa.RecordBatch],
    given: Iterable[pa.RecordBatch],
    fields: Fields,
    memory: int | None = None,
) -> tuple[Surplus, Surplus]:
    """Compare rows of equal columns as bags: give what is missing, and what is extra.

    Args:
        fields: of the expected rows; the given ones are cast to them.
        memory: bytes that are held, about; beyond them rows are set aside on the local disk.
    """
    keyed = Fields((*fields, _KEYED))
    sides = [Side(_keyed(each, fields), [_KEY], keyed) for each in (expected, given)]
    held = Memory.of(Values(fields, ()), memory or HELD_BYTES)
    found: tuple[list[pa.Table], list[pa.Table]] = ([], [])
    counts = [0, 0]
    for pair in held.pairs(sides, Values(fields, ())):
        for side, rows in enumerate(_surpluses(*pair)):
            wanted = max(SHOWN_ROWS - counts[side], 0)
            found[side].append(rows.slice(0, wanted).drop_columns([_KEY]))
            counts[side] += rows.num_rows
    empty = fields.arrow.empty_table()
    missing, extra = (pa.concat_tables([empty, *each]) for each in found)
    return Surplus(counts[0], missing), Surplus(counts[1], extra)


def _keyed(batches: Iterable[pa.RecordBatch], fields: Fields) -> Iterator[pa.RecordBatch]:
    """Add the key of each row: the row itself, but for digits of floats that may differ."""
    for batch in batches:
        columns = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(batch.columns, fields.arrow, strict=True)
        ]
        keys = encoded([_rounded(each) for each in columns], batch.num_rows, equal_zeros=True)
        schema = Fields((*fields, _KEYED)).arrow
        yield pa.RecordBatch.from_arrays(
            [*columns, keys.cast(schema.field(_KEY).type)], schema=schema
        )


def _surpluses(expected: pa.Table, given: pa.Table) -> tuple[pa.Table, pa.Table]:
    joined = pa.concat_tables([expected, given]).combine_chunks()
    groups = codes([whole(joined.column(_KEY))], joined.num_rows).of_row
    sides = np.where(np.arange(joined.num_rows) < expected.num_rows, 1, -1)
    count = int(groups.max(initial=-1)) + 1
    net = np.bincount(groups, weights=sides, minlength=count).astype(np.int64)
    missing, extra = _surplus(groups, sides == 1, net), _surplus(groups, sides == -1, -net)
    return joined.take(pa.array(missing)), joined.take(pa.array(extra))


def _surplus(groups: np.ndarray, side: np.ndarray, net: np.ndarray) -> np.ndarray:
    """Choose so many rows of one side of each group as it has more than the other."""
    rows = np.flatnonzero(side)
    order = rows[np.argsort(groups[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    places = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    return np.sort(order[places < net[groups[order]]])


def _rounded(column: pa.Array) -> pa.Array:
    """Leave the digits of floats that do not depend on the order of additions."""
    if not pa.types.is_floating(column.type):
        return column
    values = np.array(column.to_numpy(zero_copy_only=False), np.float64)
    mask = np.asarray(column.is_null())
    with np.errstate(all="ignore"):
        scale = 10.0 ** (9 - np.floor(np.log10(np.abs(values))))
        rounded = np.where(np.isfinite(scale), np.round(values * scale) / scale, values)
    return pa.array(rounded, pa.float64(), mask=mask, from_pandas=False)
