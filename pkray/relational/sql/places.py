"""Locate parts of a query, and write names for messages."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sqlglot import exp

from pkray.errors import QueryError, UnsupportedError


def position(node: exp.Expr | None) -> dict[str, int]:
    """Say where a part of a query stands: ``line`` and ``column`` from 1; empty if not known."""
    if node is None:
        return {}
    for part in node.walk():
        meta = part.meta
        if "line" in meta:
            width = meta["end"] - meta["start"]
            return {"line": meta["line"], "column": max(meta["col"] - width, 1)}
    return {}


def wrong(message: str, node: exp.Expr | None) -> QueryError:
    """Make the error that a part of a query is wrong, with its place."""
    return QueryError(message, **position(node))


def unsupported(message: str, node: exp.Expr | None) -> UnsupportedError:
    """Make the error that a part of a query is not supported, with its place."""
    return UnsupportedError(message, **position(node))


@contextmanager
def placed(node: exp.Expr | None) -> Iterator[None]:
    """Say where a part of a query stands in errors that have no place yet."""
    try:
        yield
    except (QueryError, UnsupportedError) as error:
        if "line" in error.values:
            raise
        raise type(error)(error.message, **{**error.values, **position(node)}) from None


def quoted(name: str) -> str:
    """Write a name so that it is read as it is: between backquotes where it must be."""
    plain = name.isascii() and name.isidentifier()
    return name if plain else "`" + name.replace("`", "``") + "`"


def nearest(name: str, names: Iterable[str]) -> str:
    """Name those that a wrong name may have meant: ``; did you mean a, b?``, or nothing."""
    import difflib

    lower: dict[str, str] = {}
    for each in names:
        lower.setdefault(each.lower(), each)
    near = difflib.get_close_matches(name.lower(), lower, 3, 0.5)
    return f"; did you mean {', '.join(lower[each] for each in near)}?" if near else ""
