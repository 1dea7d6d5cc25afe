"""Values as a browser gets them: JSON's own, or text."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

_SAFE = (1 << 53) - 1
"""Larger whole numbers are no numbers of a browser."""
MOST_ROWS = 500
"""Bounds an answer: nobody reads more in a browser."""
_MOST_TEXT = 2000
"""Characters of a cell: nobody reads more in a table."""


def first_rows(batches: Iterator[pa.RecordBatch], count: int) -> list[pa.RecordBatch]:
    """Take the first rows, `MOST_ROWS` at most, and read no more."""
    kept: list[pa.RecordBatch] = []
    left = max(1, min(count, MOST_ROWS))
    for batch in batches:
        kept.append(batch.slice(0, left))
        left -= kept[-1].num_rows
        if left <= 0:
            break
    return kept


def columns_of(schema: pa.Schema) -> list[dict[str, str]]:
    """Describe columns: ``name`` and ``type``."""
    return [{"name": field.name, "type": str(field.type)} for field in schema]


def rows_of(data: pa.Table | pa.RecordBatch) -> list[list[Any]]:
    """Give rows as lists of cells; for few of them, as people read them."""
    columns = [[cell(value) for value in _values(column)] for column in data.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def records_of(data: pa.Table) -> list[dict[str, Any]]:
    """Give rows as mappings."""
    return [dict(zip(data.schema.names, row, strict=True)) for row in rows_of(data)]


def _values(column: Any) -> list[Any]:
    if pa.types.is_timestamp(column.type) or pa.types.is_time(column.type):
        return [None if text is None else text for text in column.cast(pa.string()).to_pylist()]
    return list(column.to_pylist())


def cell(value: Any) -> Any:
    """Give one value: null, a number, a truth value or text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -_SAFE <= value <= _SAFE else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return _cut(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value[:_MOST_TEXT].hex()
    if isinstance(value, Mapping):
        inside = ", ".join(f"{name}: {_text(part)}" for name, part in value.items())
        return f"{{{inside}}}"
    if isinstance(value, tuple) and len(value) == 2:
        return f"{_text(value[0])}: {_text(value[1])}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value[:_MOST_TEXT]))}]"
    return "NULL" if value is None else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}… ({len(text):,} characters)"
