"""Row groups of Parquet files that may have rows a condition holds for, by their statistics."""

import contextlib
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pkray.storage.object_store import ObjectStore
from pkray.storage.parquet.metadata import explained, read_footer

UNFIT = (pa.ArrowInvalid, pa.ArrowTypeError, NotImplementedError)
"""What a condition raises that does not fit the file's types."""


@dataclass
class RowGroupFilter:
    """Leaves out row groups without a row that a condition holds for, by their statistics.

    Args:
        condition: of the file's columns; None, and one that does not fit their types, keeps all.
        total, kept: row groups that there were so far, and that were read.
    """

    condition: pc.Expression | None
    total: int = 0
    kept: int = 0


def may_hold(condition: pc.Expression, file: pa.NativeFile, schema: pa.Schema) -> Set[int]:
    """Number the row groups of an open file that may hold rows that fit.

    Raises:
        pa.ArrowException, NotImplementedError: the condition does not fit, see `UNFIT`.
    """
    import pyarrow.dataset as ds  # it imports pandas: not before a read has a condition

    fragment = ds.ParquetFileFormat().make_fragment(file)
    return {group.id for group in fragment.subset(condition, schema).row_groups}


def row_groups_with(
    store: ObjectStore, path: str, condition: pc.Expression
) -> Iterator[tuple[int, int]]:
    """List number and first row of each; all of them where the condition does not fit the types.

    Raises:
        MissingFileError, CorruptFileError: as `read_batches`.
    """
    with store.open_input(path) as file, explained(store.location(path)):
        metadata = read_footer(file)
        kept: Set[int] = set(range(metadata.num_row_groups))
        with contextlib.suppress(*UNFIT):
            kept = may_hold(condition, file, metadata.schema.to_arrow_schema())
    first = 0
    for number in range(metadata.num_row_groups):
        if number in kept:
            yield number, first
        first += metadata.row_group(number).num_rows


def numbered(
    batches: Iterable[pa.RecordBatch], first: int = 0
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each batch with the position of its first row.

    Args:
        first: position of the first row of all.
    """
    for batch in batches:
        yield first, batch
        first += batch.num_rows
