"""Aggregates that choose a value: extremes, first and last, percentiles, the most frequent.

They give NULL for a group without values and leave NULLs out, ``first`` and ``last`` excepted.
"""

from __future__ import annotations

from pkray.errors import QueryError
from pkray.relational.compiled import fold
from pkray.relational.dialect import Dialect
from pkray.relational.functions.aggregates.aggregate import (
    Resolved,
    Resolver,
    Written,
    define_aggregate,
)
from pkray.relational.functions.aggregates.arguments import check_ordered, number
from pkray.relational.functions.coercion import BOOLEAN, DOUBLE, NUMBERS, cast_to
from pkray.relational.functions.signatures import check_count, constant
from pkray.relational.plan.expressions import Expression, Literal
from pkray.schema.types import DataType


def _extreme(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 1, 1)
    check_ordered(call.name, call.arguments[0], nested=True)
    return Resolved(call.name, call.arguments, (), call.arguments[0].type.with_nullable(True))


def _extreme_by(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 2, 2)
    check_ordered(call.name, call.arguments[1], nested=True)
    return Resolved(call.name, call.arguments, (), call.arguments[0].type.with_nullable(True))


def first_or_last(name: str) -> Resolver:
    """Resolve first, last and their kin, whose second argument says whether NULLs are ignored."""

    def resolve(call: Written) -> Resolved:
        check_count(call.name, call.arguments, 1, 2)
        value, *said = call.arguments
        ignore = bool(said) and constant(call.name, said[0], "whether NULLs are ignored")
        if not isinstance(ignore, bool):
            raise QueryError(
                f"argument 2 of {call.name} says whether NULLs are ignored: write TRUE or FALSE",
                function=call.name,
            )
        if call.dialect is Dialect.FLINK and call.name in ("first_value", "last_value"):
            ignore = True
        parameters = (Literal(BOOLEAN.with_nullable(False), True),) if ignore else ()
        return Resolved(name, (value,), parameters, value.type.with_nullable(True))

    return resolve


def _share(name: str, said: Expression) -> Literal:
    share = constant(name, said, "the percentage")
    try:
        given = float(share)
    except (TypeError, ValueError):
        given = -1.0
    if not 0 <= given <= 1:
        raise QueryError(
            f"the percentage of {name} must be a number from 0 to 1; {share!r} given",
            function=name,
        )
    return Literal(DOUBLE.with_nullable(False), given)


def _shares(name: str, said: Expression) -> tuple[Literal, ...]:
    """Read one share, or a constant array of them."""
    if said.type.root != "ARRAY":
        return (_share(name, said),)
    given = fold(said)
    if not isinstance(given, Literal) or given.value is None:
        raise QueryError(f"the percentages of {name} must be a constant array", function=name)
    number = DOUBLE.with_nullable(False)
    return tuple(_share(name, Literal(number, each)) for each in given.value)


def _percentile(call: Written) -> Resolved:
    """Type percentile(x, share) and percentile_cont(share) WITHIN GROUP (ORDER BY x)."""
    if call.name in ("percentile_cont", "percentile_disc"):
        check_count(call.name, call.arguments, 1, 1)
        if len(call.within_group) != 1:
            raise QueryError(
                f"write {call.name}(0.5) WITHIN GROUP (ORDER BY column)", function=call.name
            )
        value, said = call.within_group[0], call.arguments[0]
    else:
        check_count(call.name, call.arguments, 2, 3 if "approx" in call.name else 2)
        value, said = call.arguments[:2]
    shares = _shares(call.name, said)

    def kind(one: DataType) -> DataType:
        inner = one.with_nullable(False)
        return DataType("ARRAY", element=inner) if said.type.root == "ARRAY" else one

    if "approx" in call.name or call.name == "percentile_disc":
        check_ordered(call.name, value)
        spark = call.name == "percentile_disc" and call.dialect is Dialect.SPARK
        if spark and value.type.root in NUMBERS:
            value = cast_to(value, DOUBLE)  # as Spark's, which takes nothing else
        return Resolved("percentile_disc", (value,), shares, kind(value.type.with_nullable(True)))
    taken = cast_to(number.taken(call.name, (value,), 0, call.dialect), DOUBLE)
    return Resolved("percentile_cont", (taken,), shares, kind(DOUBLE))


def _median(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 1, 1)
    taken = cast_to(number.taken(call.name, call.arguments, 0, call.dialect), DOUBLE)
    half = Literal(DOUBLE.with_nullable(False), 0.5)
    return Resolved("percentile_cont", (taken,), (half,), DOUBLE)


def _mode(call: Written) -> Resolved:
    if call.within_group and not call.arguments:
        call = call._replace(arguments=call.within_group)
    check_count(call.name, call.arguments, 1, 2)
    for said in call.arguments[1:]:
        constant(call.name, said, "whether the least of several is taken")
    (value, *_) = call.arguments
    check_ordered(call.name, value)
    return Resolved("mode", (value,), (), value.type.with_nullable(True))


define_aggregate("min", "min(x) -> x", "Gives the least value.", _extreme)
define_aggregate("max", "max(x) -> x", "Gives the greatest value; NaN is greatest.", _extreme)
define_aggregate("min_by", "min_by(x, y) -> x", "Gives x of the row where y is least.", _extreme_by)
define_aggregate(
    "max_by", "max_by(x, y) -> x", "Gives x of the row where y is greatest.", _extreme_by
)
define_aggregate(
    "first",
    "first(x [, ignore nulls BOOLEAN]) -> x",
    "Gives the value of the first row; flink's first_value that of the first without NULL.",
    first_or_last("first"),
    "first_value",
)
define_aggregate(
    "last",
    "last(x [, ignore nulls BOOLEAN]) -> x",
    "Gives the value of the last row; flink's last_value that of the last without NULL.",
    first_or_last("last"),
    "last_value",
)
define_aggregate(
    "any_value", "any_value(x) -> x", "Gives the value of a row.", first_or_last("first")
)
define_aggregate(
    "percentile",
    "percentile(number, share 0..1 | ARRAY of them) -> DOUBLE | ARRAY<DOUBLE>",
    "Gives the percentile, interpolated.",
    _percentile,
)
define_aggregate(
    "percentile_cont",
    "percentile_cont(share | ARRAY) WITHIN GROUP (ORDER BY number) -> DOUBLE | ARRAY<DOUBLE>",
    "Gives the percentile, interpolated.",
    _percentile,
)
define_aggregate(
    "percentile_disc",
    "percentile_disc(share) WITHIN GROUP (ORDER BY x) -> x; DOUBLE of numbers (spark)",
    "Gives the least value with at least this share of the values up to it.",
    _percentile,
)
define_aggregate(
    "percentile_approx",
    "percentile_approx(x, share | ARRAY [, accuracy]) -> x | ARRAY<x>",
    "Gives the percentile as percentile_disc does, exactly.",
    _percentile,
    "approx_percentile",
)
define_aggregate("median", "median(number) -> DOUBLE", "Gives the middle value.", _median)
define_aggregate(
    "mode", "mode(x) -> x", "Gives the most frequent value, the least of several.", _mode
)
