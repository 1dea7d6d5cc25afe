"""All aggregates and window functions: what is known of each is in one place.

The binder asks `resolve_aggregate` and `resolve_window`; what they give is computed as
`computation` says.
"""

import difflib

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import spans
from pkray.relational.functions.aggregates import (
    counts,
    ends,
    histograms,
    lists,
    quantiles,
    spreads,
    sums,
    truths,
    users,
    windows,
)
from pkray.relational.functions.aggregates.aggregate import (
    AGGREGATES,
    COMPUTATIONS,
    WINDOWS,
    Aggregate,
    Computation,
    Resolved,
)
from pkray.relational.functions.function import Written
from pkray.relational.plan.expressions import Expression

FAMILIES = (counts, sums, truths, ends, spreads, quantiles, histograms, lists, users, windows)
"""The modules of aggregates, which put themselves into the tables as they come."""


def computation(function: str) -> Computation:
    """Find how an aggregate is computed, by its canonical name."""
    return COMPUTATIONS[function]


def is_aggregate(name: str, dialect: Dialect) -> bool:
    """Whether people can write an aggregate of this name."""
    known = AGGREGATES.get(name.lower())
    return known is not None and dialect in known.dialects


def is_window(name: str) -> bool:
    """Whether it is a function that needs OVER; some are aggregates as well (``first_value``)."""
    return name.lower() in WINDOWS


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
        raise _unknown("aggregate", name, AGGREGATES, dialect)
    spans.check_taken(name, (*arguments, *within_group), aggregate=True)
    call = Written(name.lower(), arguments, dialect, distinct, within_group)
    resolved = AGGREGATES[name.lower()].resolve(call)
    if name.lower() == "sum" and arguments and arguments[0].type.span:
        return resolved._replace(type=arguments[0].type.with_nullable(True))
    return resolved


def resolve_window(name: str, arguments: tuple[Expression, ...], dialect: Dialect) -> Resolved:
    """Type a function that needs OVER.

    Raises:
        QueryError: no such function, or wrong arguments.
    """
    if not is_window(name):
        raise _unknown("window function", name, WINDOWS, dialect)
    spans.check_taken(name, arguments, aggregate=True)
    return WINDOWS[name.lower()].resolve(Written(name.lower(), arguments, dialect))


def written_aggregates(dialect: Dialect) -> list[Aggregate]:
    """List the aggregates that people can write, by name."""
    found = {each.name: each for each in AGGREGATES.values() if dialect in each.dialects}
    return [found[name] for name in sorted(found)]


def written_windows() -> list[Aggregate]:
    """List the functions that need OVER, by name."""
    return [WINDOWS[name] for name in sorted(WINDOWS)]


def _unknown(what: str, name: str, table: dict[str, Aggregate], dialect: Dialect) -> QueryError:
    names = [known for known, each in table.items() if dialect in each.dialects]
    near = difflib.get_close_matches(name.lower(), names, 3)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return QueryError(f"no {what} is called {name!r}{hint}", function=name)
