"""Refuses changes of columns that rows which are there depend on."""

from __future__ import annotations

from pkray.errors import SchemaError
from pkray.options import column_names
from pkray.schema.changes import ColumnName
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import DataType


def check_not_key(schema: TableSchema, path: tuple[str, ...], what: str, how: str = "") -> None:
    """Raise a SchemaError for a column of a key, by which files are laid out.

    Args:
        what, how: was to be done with it.
    """
    for kind, keys in (
        ("partition column", schema.partition_keys),
        ("column of the primary key", schema.primary_keys),
    ):
        if len(path) == 1 and path[0] in keys:
            raise SchemaError(
                f"column {path[0]!r} is a {kind} and cannot be {what}{how}: files are laid "
                "out by it; create another table and copy the rows",
                column=path[0],
            )


def check_not_named(schema: TableSchema, path: tuple[str, ...]) -> None:
    """Raise a SchemaError where options would speak of a column that is not there."""
    options = schema.options
    keys = column_names.keys_naming(options, path[0]) if len(path) == 1 else []
    if len(path) > 1:
        keys = column_names.nested_keys_naming(options, path[0], path[-1])
    if keys:
        said = ", ".join(f"{key} = {options[key]}" for key in keys)
        raise SchemaError(
            f"column {path_text(path)!r} is named by the options {said}: change or unset them "
            "first, where the table lets you",
            column=path_text(path),
            options=tuple(keys),
        )


def tightened(path: tuple[str, ...], wanted: DataType) -> SchemaError:
    """Make the error for a nullable column that was to be ``wanted``, which is NOT NULL."""
    return SchemaError(
        f"column {path_text(path)!r} is nullable and cannot become {wanted}: rows that are there "
        "may hold nulls; add another column and fill it",
        column=path_text(path),
        value=str(wanted),
    )


def path_text(name: ColumnName) -> str:
    """Write a column as messages name it."""
    return name if isinstance(name, str) else ".".join(name)
