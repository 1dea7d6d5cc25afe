"""The four kinds of a change: +I insert, -U before an update, +U after it, -D delete."""

import pyarrow as pa
import pyarrow.compute as pc

from pkray import constants
from pkray.errors import InputError

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
SHORT = ("+I", "-U", "+U", "-D")

_SHORT = constants.texts(SHORT)


def parse(words: pa.Array | pa.ChunkedArray, column: str) -> pa.Array | pa.ChunkedArray:
    """Parse short names (``+I``, ``-u`` …) to int8 kinds.

    Raises:
        InputError: a null or another word; it names the column, the row and the word.
    """
    if isinstance(words.type, pa.DictionaryType):
        words = words.cast(words.type.value_type)
    if not (pa.types.is_string(words.type) or pa.types.is_large_string(words.type)):
        raise InputError(
            f"column {column!r} holds row kinds and must be a string, not {words.type}",
            column=column,
        )
    kinds = pc.index_in(pc.utf8_upper(words.cast(pa.string())), value_set=_SHORT)
    if kinds.null_count:
        row = pc.index(pc.is_valid(kinds), False).as_py()
        raise InputError(
            f"row {row} of column {column!r} is {words[row].as_py()!r}, not a row kind: use one "
            f"of {', '.join(SHORT)}",
            column=column,
            row=row,
            value=words[row].as_py(),
        )
    return kinds.cast(pa.int8())


def names(kinds: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Write int8 kinds as short names."""
    return pc.take(_SHORT, kinds)
