"""Rows of metadata as the text that Paimon's system tables show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from pkray.format.partition_text import value_text
from pkray.schema.types import INTEGERS, STRINGS, DataType

NULL = "null"


def texts(column: pa.Array, kind: DataType) -> list[str]:
    """Write each value as SQL casts it to a string; ``null`` where there is none."""
    if kind.root in INTEGERS or kind.root in STRINGS:
        plain = column.cast(pa.string()).to_pylist()
        return [NULL if value is None else value for value in plain]
    return [value_text(value, kind) if value.is_valid else NULL for value in column]


def rows_of(
    columns: Sequence[pa.Array], types: Sequence[DataType], brackets: str = "{}"
) -> list[str]:
    """Write each row as ``{a, b}``."""
    shown = [texts(column, kind) for column, kind in zip(columns, types, strict=True)]
    return [f"{brackets[0]}{', '.join(row)}{brackets[1]}" for row in zip(*shown, strict=True)]


def maps_of(columns: Mapping[str, Iterable[str]], count: int) -> list[str]:
    """Write each row as ``{a=1, b=2}``, by column name."""
    if not columns:
        return ["{}"] * count
    names = sorted(columns)
    rows = zip(*(columns[name] for name in names), strict=True)
    return [
        "{" + ", ".join(f"{name}={value}" for name, value in zip(names, row, strict=True)) + "}"
        for row in rows
    ]
