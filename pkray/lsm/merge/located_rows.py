"""Hold rows of data files together with their places in the files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from pkray.format.deletion_vector import DeletionVector, Ints
from pkray.lsm.keys.key_groups import RowOrder, concat, empty_rows
from pkray.lsm.levels import Vectors

FILE, POSITION = "_FILE", "_POSITION"
PLACE = pa.schema([(FILE, pa.int32()), (POSITION, pa.int64())])


@dataclass(frozen=True)
class LocatedRows:
    """Rows of distinct keys, in key order.

    Args:
        rows: with the columns asked for, then `FILE`, the number of the row's file, and
            `POSITION`, the row's in the file from 0 on.
        files: names of the files that are numbered.
    """

    rows: pa.RecordBatch
    files: Sequence[str]

    @classmethod
    def from_batches(
        cls,
        batches: Sequence[pa.RecordBatch],
        files: Sequence[str],
        schema: pa.Schema,
        order: RowOrder,
    ) -> Self:
        """Sort rows, which come in any order, by key.

        Args:
            schema: of the batches, but for the columns that tell the place.
        """
        target = pa.schema([*schema, *PLACE])
        rows = concat(list(batches)) if batches else empty_rows(target)
        if len(batches) > 1:
            rows = rows.take(pa.array(order.keys(rows).argsort()))
        return cls(rows, files)

    def vectors(self) -> Vectors:
        """Make vectors that mark these rows."""
        numbers = self.rows.column(FILE).to_numpy()
        by_file = np.argsort(numbers, kind="stable")
        chosen, starts = np.unique(numbers[by_file], return_index=True)
        positions = self.rows.column(POSITION).to_numpy()[by_file]
        parts = np.split(positions, starts[1:])
        return {
            self.files[number]: DeletionVector.from_positions(part)
            for number, part in zip(chosen.tolist(), parts, strict=False)
        }


def placed(rows: pa.RecordBatch, file: int, positions: Ints) -> pa.RecordBatch:
    """Add their places to rows of one file, which is given by number."""
    place = [pa.array(np.full(len(positions), file, np.int32)), pa.array(positions, pa.int64())]
    return pa.RecordBatch.from_arrays(
        [*rows.columns, *place], schema=pa.schema([*rows.schema, *PLACE])
    )
