"""Rows that say in a column what became of them."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from pkray.cdc.row_changes import ROW_KIND
from pkray.errors import ChangeRecordError, InputError
from pkray.schema import row_kind

WORDS: Mapping[str, str] = {
    **dict.fromkeys(("+I", "I", "INSERT", "C", "R"), "+I"),
    **dict.fromkeys(("-U",), "-U"),
    **dict.fromkeys(("+U", "U", "UPDATE"), "+U"),
    **dict.fromkeys(("-D", "D", "DELETE"), "-D"),
}
"""Says what the words of other systems mean, in any case of letters."""


def with_row_kinds(
    rows: pa.Table | pa.RecordBatch,
    column: str,
    words: Mapping[str, str] | None = None,
    *,
    keep: bool = False,
) -> pa.Table:
    """Give rows a column ``_row_kind``, which ``writer.write(rows, "_row_kind")`` takes.

    Args:
        column: holds a word for each row; it is taken off.
        words: what each means, such as ``{"new": "+I", "gone": "-D"}``. Default `WORDS`: I, U, D,
            insert, update, delete, Debezium's c and r, and the kinds themselves.
        keep: whether the column stays, as one of the table's.

    Raises:
        ChangeRecordError: a row has none of the words; it names the row and the word.
        InputError: there is no such column of text, or a word means no kind.
    """
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    if column not in table.column_names:
        raise InputError(
            f"column {column!r}, which is to hold row kinds, is not there: there are "
            f"{', '.join(table.column_names)}",
            column=column,
        )
    known = {word.upper(): kind for word, kind in (WORDS if words is None else words).items()}
    for word, kind in known.items():
        if kind not in row_kind.SHORT:
            raise InputError(
                f"the word {word!r} is to mean {kind!r}, which is none of "
                f"{', '.join(row_kind.SHORT)}",
                value=kind,
            )
    said = table.column(column)
    if not (pa.types.is_string(said.type) or pa.types.is_large_string(said.type)):
        raise InputError(
            f"column {column!r} holds row kinds and must be text, not {said.type}", column=column
        )
    codes = pc.index_in(
        pc.utf8_upper(said.cast(pa.string())), value_set=pa.array(list(known), pa.string())
    )
    if codes.null_count:
        row = pc.index(codes.is_valid(), False).as_py()
        raise ChangeRecordError(
            f"row {row} of column {column!r} is {said[row].as_py()!r}, which says no row kind: "
            f"the words are {', '.join(known)}",
            source="data",
            record=row,
            reason="no row kind",
        )
    kinds = pa.array(list(known.values()), pa.string()).take(codes)
    left = table if keep else table.drop_columns([column])
    return left.append_column(ROW_KIND, kinds)
