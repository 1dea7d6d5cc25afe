"""Checks the names and types of columns and keys."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pkray.errors import SchemaError, UnsupportedError
from pkray.schema.columns import KEY_PREFIX, RESERVED, no_column
from pkray.schema.types import DataType


def check_names(names: Sequence[str]) -> None:
    """Check that column names are there, unique and not the format's own."""
    if not names:
        raise SchemaError("a table needs columns")
    for name in names:
        if not isinstance(name, str):
            raise SchemaError(f"a column cannot be named {name!r}: names are text", column=name)
    again = repeated(names)
    if again is not None:
        raise SchemaError(f"column {again!r} is there twice; rename one", column=again)
    for name in names:
        if not name.strip():
            raise SchemaError(f"a column cannot be named {name!r}", column=name)
        if name in RESERVED or name.startswith(KEY_PREFIX):
            raise SchemaError(
                f"column name {name!r} is reserved: the format has columns named "
                f"{', '.join(sorted(RESERVED))} and {KEY_PREFIX}…; rename it",
                column=name,
            )


def check_keys(
    types: Mapping[str, DataType], primary_keys: Sequence[str], partition_keys: Sequence[str]
) -> None:
    """Check that key columns are there, once, and of types that keys can have."""
    if not primary_keys:
        raise UnsupportedError(
            "tables without a primary key are not supported; give primary_keys",
            arguments=("primary_keys",),
        )
    for what, keys in (("primary key", primary_keys), ("partition", partition_keys)):
        again = repeated(keys)
        if again is not None:
            raise SchemaError(f"{what} column {again!r} is named twice", column=again)
        for name in keys:
            if name not in types:
                raise no_column(name, list(types), f"{what} column")
            if types[name].is_nested:
                raise UnsupportedError(
                    f"{what} column {name!r} is {types[name]}: keys have scalar types alone",
                    column=name,
                    type=str(types[name]),
                )
    if set(primary_keys) <= set(partition_keys):
        raise SchemaError(
            f"the primary key {list(primary_keys)} holds partition columns alone, which leaves one "
            "row a partition; add a column to the primary key",
            primary_keys=tuple(primary_keys),
        )


def check_comment(comment: object) -> None:
    """Raise a SchemaError for a comment that is neither text nor None."""
    if comment is not None and not isinstance(comment, str):
        raise SchemaError(f"a comment cannot be {comment!r}: write text", value=comment)


def repeated(names: Iterable[str]) -> str | None:
    """Find a name that is there more than once; None if there is none."""
    return next((name for name, count in Counter(names).items() if count > 1), None)
