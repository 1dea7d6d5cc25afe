"""The table of aggregates and window functions: what is known of each is in one place.

The modules of `FAMILIES` fill it when they are imported. The binder asks `resolve_aggregate` and
`resolve_window`; what they give is what the kernels know by name.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.plan.expressions import Expression, Literal
from pkray.schema.types import DataType

BOTH = frozenset(Dialect)
SPARK = frozenset({Dialect.SPARK})
FLINK = frozenset({Dialect.FLINK})


class Resolved(NamedTuple):
    """An aggregate or window function with its typed arguments.

    Attributes:
        function: the canonical name.
        arguments: cast to what the function computes with.
        parameters: constants of the call.
        type: of the result.
    """

    function: str
    arguments: tuple[Expression, ...]
    parameters: tuple[Literal, ...]
    type: DataType


class Written(NamedTuple):
    """A call as it was written.

    Attributes:
        within_group: what WITHIN GROUP (ORDER BY …) sorts by.
    """

    name: str
    arguments: tuple[Expression, ...]
    dialect: Dialect
    distinct: bool = False
    within_group: tuple[Expression, ...] = ()


Resolver: TypeAlias = Callable[[Written], Resolved]


@dataclass(frozen=True)
class Aggregate:
    """One aggregate, or one window function.

    Attributes:
        name: as people write it; the canonical name is often the same.
        usage: ``sum(x number) -> BIGINT | DOUBLE | DECIMAL``.
        about: one sentence that begins with a verb.
        resolve: types a call.
        synonyms: other names that people write.
        dialects: where people can write it.
    """

    name: str
    usage: str
    about: str
    resolve: Resolver
    synonyms: tuple[str, ...] = ()
    dialects: frozenset[Dialect] = BOTH


_AGGREGATES: dict[str, Aggregate] = {}
_WINDOWS: dict[str, Aggregate] = {}
FAMILIES = ("totals", "choices", "lists", "windows")
"""The modules that define aggregates and window functions."""


@cache
def load() -> None:
    """Define all aggregates and window functions."""
    for family in FAMILIES:
        importlib.import_module(f"pkray.relational.functions.aggregates.{family}")


def is_aggregate(name: str, dialect: Dialect) -> bool:
    """Whether people can write an aggregate of this name."""
    load()
    known = _AGGREGATES.get(name.lower())
    return known is not None and dialect in known.dialects


def is_window(name: str) -> bool:
    """Whether it is a function that needs OVER; some are aggregates as well (``first_value``)."""
    load()
    return name.lower() in _WINDOWS


def resolve_aggregate(
    name: str,
    arguments: tuple[Expression, ...],
    dialect: Dialect,
    *,
    distinct: bool = False,
    within_group: tuple[Expression, ...] = (),
) -> Resolved:
    """Type an aggregate; also one with OVER.

    Args:
        arguments: ``COUNT(*)`` has none.
        distinct: whether DISTINCT is written.
        within_group: what WITHIN GROUP (ORDER BY …) sorts by. ``percentile_cont`` takes its value
            from there; for others the caller keeps the order in ``AggregateCall.order_by``.

    Returns:
        the parameters in the order in which the kernel takes them, with defaults filled in.

    Raises:
        QueryError: no such aggregate, or wrong arguments.
        UnsupportedError: the aggregate exists, and pkray has no type for what it gives.
    """
    if not is_aggregate(name, dialect):
        raise _unknown("aggregate", name, _AGGREGATES, dialect)
    call = Written(name.lower(), arguments, dialect, distinct, within_group)
    return _AGGREGATES[name.lower()].resolve(call)


def resolve_window(name: str, arguments: tuple[Expression, ...], dialect: Dialect) -> Resolved:
    """Type a function that needs OVER.

    Raises:
        QueryError: no such function, or wrong arguments.
    """
    if not is_window(name):
        raise _unknown("window function", name, _WINDOWS, dialect)
    return _WINDOWS[name.lower()].resolve(Written(name.lower(), arguments, dialect))


def written_aggregates(dialect: Dialect) -> list[Aggregate]:
    """List the aggregates that people can write, by name."""
    load()
    found = {each.name: each for each in _AGGREGATES.values() if dialect in each.dialects}
    return [found[name] for name in sorted(found)]


def written_windows() -> list[Aggregate]:
    """List the functions that need OVER, by name."""
    load()
    return [_WINDOWS[name] for name in sorted(_WINDOWS)]


def _unknown(what: str, name: str, table: dict[str, Aggregate], dialect: Dialect) -> QueryError:
    names = [known for known, each in table.items() if dialect in each.dialects]
    near = difflib.get_close_matches(name.lower(), names, 3)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return QueryError(f"no {what} is called {name!r}{hint}", function=name)


def _define(table: dict[str, Aggregate], aggregate: Aggregate) -> None:
    for name in (aggregate.name, *aggregate.synonyms):
        assert name not in table, name
        table[name] = aggregate


def define_aggregate(
    name: str,
    usage: str,
    about: str,
    resolve: Resolver,
    *synonyms: str,
    dialects: frozenset[Dialect] = BOTH,
) -> None:
    """Add an aggregate to the table."""
    _define(_AGGREGATES, Aggregate(name, usage, about, resolve, synonyms, dialects))


def define_window(name: str, usage: str, about: str, resolve: Resolver) -> None:
    """Add a window function to the table."""
    _define(_WINDOWS, Aggregate(name, usage, about, resolve))
