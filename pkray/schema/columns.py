"""Columns that the format adds to a table's own, and the error for a column that is not there."""

import difflib
from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import InputError, SchemaError

SEQUENCE = "_SEQUENCE_NUMBER"
KIND = "_VALUE_KIND"
KEY_PREFIX = "_KEY_"

RESERVED = frozenset({SEQUENCE, KIND, "_LEVEL", "_ROW_ID", "rowkind", "_row_kind", "_snapshot_id"})


def check_name_list(argument: str, names: object) -> None:
    """Raise an InputError where one name, or what is no list, stands for a list of names."""
    if isinstance(names, str):
        raise InputError(f"{argument} is a list of column names: write [{names!r}]", value=names)
    if names is not None and not isinstance(names, Collection):
        raise InputError(f"{argument} is a list of column names, not {names!r}", value=names)


def no_column(name: str, known: Sequence[str], what: str = "column") -> SchemaError:
    """Make the error for a name that is no column."""
    nearest = difflib.get_close_matches(str(name), known, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"columns are {', '.join(known)}"
    return SchemaError(f"{what} {name!r} is not in the table; {hint}", column=name)


def filter_rows(batch: pa.RecordBatch, expression: pc.Expression) -> pa.RecordBatch:
    """Select the rows that pass; PyArrow 19 does not filter a batch of which none does."""
    rows = pa.Table.from_batches([batch]).filter(expression)
    return rows.combine_chunks().to_batches()[0] if rows.num_rows else batch.slice(0, 0)
