"""Give incoming rows their kinds, and drop the kinds that a table ignores."""

from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.lsm.merge.merge_function import is_add
from pkray.schema import row_kind
from pkray.schema.table_schema import KIND, TableSchema

R = TypeVar("R", pa.RecordBatch, pa.Table)


def accepted_rows(rows: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """Give incoming rows their final kinds, and leave out those that the table's options ignore.

    ``rowkind.field`` overrides the rows' own kinds; ``ignore-delete`` drops -U and -D,
    ``ignore-update-before`` drops -U.

    Raises:
        InputError: a value of ``rowkind.field`` is null or no row kind.
    """
    options = schema.core
    if options.rowkind_field:
        kinds = row_kind.parse(rows.column(options.rowkind_field), options.rowkind_field)
        rows = rows.set_column(rows.schema.get_field_index(KIND), KIND, kinds)
    if options.ignore_delete:
        kept = is_add(rows.column(KIND))
        return rows if kept.all() else rows.filter(pa.array(kept))
    if options.ignore_update_before:
        return rows.filter(pc.not_equal(rows.column(KIND), row_kind.UPDATE_BEFORE))
    return rows


def with_kinds(rows: R, kinds: int | pa.Array | pa.ChunkedArray) -> R:
    """Append the column of row kinds: int8, one a row, or one for all."""
    if isinstance(kinds, int):
        kinds = pa.array(np.full(rows.num_rows, kinds, np.int8))
    return rows.append_column(pa.field(KIND, pa.int8(), nullable=False), kinds)
