"""The order of stored keys: ``_MIN_KEY`` and ``_MAX_KEY`` of files, compared all at once.

Keys sort as Paimon sorts them: column by column, nulls first, FALSE before TRUE, numbers and times
by value (NaN last), strings and bytes by their unsigned bytes.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pkray.format import binary_row
from pkray.format.words import null_mask
from pkray.schema.types import DataType

Ranks = npt.NDArray[np.int64]


def rank_keys(rows: Sequence[bytes] | pa.Array, types: Sequence[DataType]) -> Ranks:
    """Rank stored keys densely (from 0): equal keys share a rank, smaller keys have smaller ones.

    Args:
        rows: BinaryRows with arity of the trimmed primary key.
        types: of its columns.

    Raises:
        CorruptFileError: a row is not such a key.
    """
    return rank_columns(binary_row.decode(rows, types))


def rank_columns(columns: Sequence[pa.Array]) -> Ranks:
    """Rank rows densely, given by their columns: at least one, all of one length."""
    if len(columns[0]) == 0:
        return np.zeros(0, np.int64)
    ranks = _rank(columns[0])
    for column in columns[1:]:
        of_column = _rank(column)
        combined = ranks * (int(of_column.max()) + 1) + of_column
        ranks = np.unique(combined, return_inverse=True)[1].astype(np.int64)
    return ranks


def rank_ranges(
    min_keys: Sequence[bytes], max_keys: Sequence[bytes], types: Sequence[DataType]
) -> tuple[Ranks, Ranks]:
    """Rank files' smallest and largest keys, comparable with each other.

    Files i and j overlap if ``low[i] <= high[j] and low[j] <= high[i]``.
    """
    ranks = rank_keys([*min_keys, *max_keys], types)
    return ranks[: len(min_keys)], ranks[len(min_keys) :]


def _rank(column: pa.Array) -> Ranks:
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    ranks: Ranks = pc.rank(column, tiebreaker="dense").to_numpy().astype(np.int64)
    nulls = null_mask(column)
    if nulls is not None:
        ranks[nulls] = 0  # Arrow ranks them last
    return ranks - ranks.min()
