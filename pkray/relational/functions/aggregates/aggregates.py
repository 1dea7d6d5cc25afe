"""Aggregates and window functions: how each is called and typed.

The kernels are in `kernels`. Aggregates give NULL for a group without values, unless said
otherwise, and leave NULLs out, except ``first``, ``last`` and ``array_agg``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.arguments import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    FLOATS,
    INT,
    NUMBERS,
    STRING,
    TEXTS,
    cast_to,
    check_count,
    check_root,
    constant,
    is_null,
)
from pkray.relational.plan.expressions import Expression, Literal
from pkray.schema.types import INTEGERS, DataType

BOTH = frozenset(Dialect)
SPARK = frozenset({Dialect.SPARK})
FLINK = frozenset({Dialect.FLINK})
PLACES = ("first", "last", "first_value", "last_value")
"""Canonical names of functions whose one parameter says that NULLs are ignored."""


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


def is_aggregate(name: str, dialect: Dialect) -> bool:
    """Whether people can write an aggregate of this name."""
    known = _AGGREGATES.get(name.lower())
    return known is not None and dialect in known.dialects


def is_window(name: str) -> bool:
    """Whether it is a function that needs OVER; some are aggregates as well (``first_value``)."""
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
    found = {each.name: each for each in _AGGREGATES.values() if dialect in each.dialects}
    return [found[name] for name in sorted(found)]


def written_windows() -> list[Aggregate]:
    """List the functions that need OVER, by name."""
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


def _aggregate(
    name: str,
    usage: str,
    about: str,
    resolve: Resolver,
    *synonyms: str,
    dialects: frozenset[Dialect] = BOTH,
) -> None:
    _define(_AGGREGATES, Aggregate(name, usage, about, resolve, synonyms, dialects))


def _window(name: str, usage: str, about: str, resolve: Resolver) -> None:
    _define(_WINDOWS, Aggregate(name, usage, about, resolve))


# --- How calls are typed --------------------------------------------------------------------------


def _count(call: Written) -> Resolved:
    if not call.arguments and call.distinct:
        raise QueryError("COUNT(DISTINCT *) is not defined: name columns", function="count")
    return Resolved("count", call.arguments, (), BIGINT.with_nullable(False))


def _count_if(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 1)
    check_root(call.name, call.arguments[0], ("BOOLEAN",))
    return Resolved("count_if", call.arguments, (), BIGINT.with_nullable(False))


def _distinct_count(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 1, 2)
    for accuracy in call.arguments[1:]:
        constant(call.name, accuracy, "the accuracy")
    return Resolved("approx_count_distinct", call.arguments[:1], (), BIGINT.with_nullable(False))


def _number(call: Written) -> Expression:
    """Take the one argument, a number; the spark dialect reads text as DOUBLE."""
    (argument,) = call.arguments
    if is_null(argument) or (call.dialect is Dialect.SPARK and argument.type.root in TEXTS):
        return cast_to(argument, DOUBLE)
    check_root(call.name, argument, NUMBERS)
    return argument


def _sum(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 1)
    argument = _number(call)
    kind = argument.type.with_nullable(True)
    spark = call.dialect is Dialect.SPARK
    if kind.root == "DECIMAL":
        digits = min((kind.precision or 0) + 10, 38) if spark else 38
        return Resolved("sum", (argument,), (), replace(kind, precision=digits))
    if spark:
        kind = BIGINT if kind.root in INTEGERS else DOUBLE
        return Resolved("sum", (cast_to(argument, kind),), (), kind)
    return Resolved("sum" if kind.root in FLOATS else "sum_wrapping", (argument,), (), kind)


def _trying(resolve: Resolver) -> Resolver:
    """Resolve what gives NULL for a sum that does not fit."""

    def resolve_trying(call: Written) -> Resolved:
        resolved = resolve(call)
        return resolved._replace(function=f"try_{resolved.function}")

    return resolve_trying


def _avg(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 1)
    argument = _number(call)
    kind = argument.type.with_nullable(True)
    digits, scale = kind.precision or 0, kind.scale or 0
    if kind.root == "DECIMAL":
        if call.dialect is Dialect.SPARK:
            wide = replace(kind, precision=min(digits + 4, 38), scale=min(scale + 4, 38))
        else:
            wide = replace(kind, precision=38, scale=max(6, scale))
        return Resolved("avg", (argument,), (), wide)
    if call.dialect is Dialect.FLINK and kind.root in INTEGERS:
        return Resolved("avg_truncating", (argument,), (), kind)
    if call.dialect is Dialect.FLINK and kind.root in FLOATS:
        return Resolved("avg", (argument,), (), kind)
    return Resolved("avg", (cast_to(argument, DOUBLE),), (), DOUBLE)


def _is_ordered(kind: DataType) -> bool:
    if kind.root == "ROW":
        return all(_is_ordered(each.type) for each in kind.fields or ())
    return not kind.is_nested


def _check_ordered(name: str, argument: Expression, *, rows: bool = False) -> None:
    """Refuse values that have no order; rows too, unless said otherwise."""
    if argument.type.is_nested and not (rows and _is_ordered(argument.type)):
        raise QueryError(
            f"{name} cannot order values of {argument.type}: give a number, text or a time",
            function=name,
            type=str(argument.type),
        )


def _extreme(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 1)
    _check_ordered(call.name, call.arguments[0], rows=True)
    return Resolved(call.name, call.arguments, (), call.arguments[0].type.with_nullable(True))


def _extreme_by(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 2)
    _check_ordered(call.name, call.arguments[1], rows=True)
    return Resolved(call.name, call.arguments, (), call.arguments[0].type.with_nullable(True))


def _place(name: str) -> Resolver:
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


def _moments(name: str, count: int = 1) -> Resolver:
    def resolve(call: Written) -> Resolved:
        check_count(call.name, call.arguments, count)
        numbers = [_number(call._replace(arguments=(each,))) for each in call.arguments]
        return Resolved(name, tuple(cast_to(each, DOUBLE) for each in numbers), (), DOUBLE)

    return resolve


def _logical(name: str) -> Resolver:
    def resolve(call: Written) -> Resolved:
        check_count(call.name, call.arguments, 1)
        check_root(call.name, call.arguments[0], ("BOOLEAN",))
        return Resolved(name, (cast_to(call.arguments[0], BOOLEAN),), (), BOOLEAN)

    return resolve


def _bits(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 1)
    check_root(call.name, call.arguments[0], INTEGERS)
    argument = call.arguments[0]
    if is_null(argument):
        argument = Literal(BIGINT, None)
    return Resolved(call.name, (argument,), (), argument.type.with_nullable(True))


def _listagg(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 1, 2)
    value = call.arguments[0]
    default = "" if call.dialect is Dialect.SPARK and call.name != "group_concat" else ","
    said = default
    if len(call.arguments) == 2:
        said = constant(call.name, call.arguments[1], "the separator")
    if not isinstance(said, str | None):
        raise QueryError(f"the separator of {call.name} must be text", function=call.name)
    text = value if value.type.root in TEXTS else cast_to(value, STRING)
    separator = Literal(STRING.with_nullable(False), said or "")
    return Resolved("listagg", (text,), (separator,), STRING)


def _collected(name: str, *, keeps_nulls: bool = False, empty: bool = True) -> Resolver:
    def resolve(call: Written) -> Resolved:
        check_count(call.name, call.arguments, 1)
        element = call.arguments[0].type
        if not keeps_nulls:
            element = element.with_nullable(False)
        kind = DataType("ARRAY", not empty, element=element)
        return Resolved(name, call.arguments, (), kind)

    return resolve


def _array_agg(call: Written) -> Resolved:
    if call.dialect is Dialect.SPARK:
        return _collected("collect_list")(call)
    return _collected("array_agg", keeps_nulls=True, empty=False)(call)


def _multiset(call: Written) -> Resolved:
    raise UnsupportedError(
        "COLLECT gives a MULTISET, which pkray has no type for: write ARRAY_AGG",
        function="collect",
    )


def _share(name: str, said: Expression) -> Literal:
    share = constant(name, said, "the percentage")
    try:
        number = float(share)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= 1:
        raise QueryError(
            f"the percentage of {name} must be a number from 0 to 1; {share!r} given",
            function=name,
        )
    return Literal(DOUBLE.with_nullable(False), number)


def _percentile(call: Written) -> Resolved:
    """Type percentile(x, share) and percentile_cont(share) WITHIN GROUP (ORDER BY x)."""
    if call.name in ("percentile_cont", "percentile_disc"):
        check_count(call.name, call.arguments, 1)
        if len(call.within_group) != 1:
            raise QueryError(
                f"write {call.name}(0.5) WITHIN GROUP (ORDER BY column)", function=call.name
            )
        value, said = call.within_group[0], call.arguments[0]
    else:
        check_count(call.name, call.arguments, 2, 3 if "approx" in call.name else 2)
        value, said = call.arguments[:2]
    share = _share(call.name, said)
    if "approx" in call.name or call.name == "percentile_disc":
        _check_ordered(call.name, value)
        return Resolved("percentile_disc", (value,), (share,), value.type.with_nullable(True))
    number = cast_to(_number(call._replace(arguments=(value,))), DOUBLE)
    return Resolved("percentile_cont", (number,), (share,), DOUBLE)


def _median(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 1)
    number = cast_to(_number(call), DOUBLE)
    half = Literal(DOUBLE.with_nullable(False), 0.5)
    return Resolved("percentile_cont", (number,), (half,), DOUBLE)


def _mode(call: Written) -> Resolved:
    if call.within_group and not call.arguments:
        call = call._replace(arguments=call.within_group)
    check_count(call.name, call.arguments, 1, 2)
    for said in call.arguments[1:]:
        constant(call.name, said, "whether the least of several is taken")
    (value, *_) = call.arguments
    _check_ordered(call.name, value)
    return Resolved("mode", (value,), (), value.type.with_nullable(True))


def _number_of_row(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 0)
    kind = INT if call.dialect is Dialect.SPARK else BIGINT
    return Resolved(call.name, (), (), kind.with_nullable(False))


def _ntile(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 1)
    tiles = _whole(call.name, call.arguments[0], "the number of tiles", 1)
    kind = INT if call.dialect is Dialect.SPARK else BIGINT
    return Resolved(call.name, (), (tiles,), kind.with_nullable(False))


def _relative_rank(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 0)
    return Resolved(call.name, (), (), DOUBLE.with_nullable(False))


def _whole(name: str, said: Expression, what: str, low: int | None = None) -> Literal:
    number = constant(name, said, what)
    if not isinstance(number, int) or isinstance(number, bool) or (low and number < low):
        wanted = "a whole number" + (f" of at least {low}" if low else "")
        raise QueryError(f"{what} of {name} must be {wanted}; {number!r} given", function=name)
    if not -(2**31) <= number < 2**31:
        raise QueryError(f"{what} of {name} is {number}: it must be an INT", function=name)
    return Literal(INT.with_nullable(False), number)


def _offset(call: Written) -> Resolved:
    """Type lag and lead; the default is a second argument, read from the current row."""
    check_count(call.name, call.arguments, 1, 3)
    value = call.arguments[0]
    offset = Literal(INT.with_nullable(False), 1)
    if len(call.arguments) > 1:
        offset = _whole(call.name, call.arguments[1], "the offset")
    default = tuple(cast_to(each, value.type) for each in call.arguments[2:])
    nullable = value.type.nullable or not default or default[0].type.nullable
    return Resolved(call.name, (value, *default), (offset,), value.type.with_nullable(nullable))


def _nth_value(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 2)
    number = _whole(call.name, call.arguments[1], "the row number", 1)
    value = call.arguments[0]
    return Resolved(call.name, (value,), (number,), value.type.with_nullable(True))


_aggregate("count", "count(* | x, …) -> BIGINT", "Counts rows, or rows without NULLs.", _count)
_aggregate("count_if", "count_if(BOOLEAN) -> BIGINT", "Counts rows where it is true.", _count_if)
_aggregate(
    "approx_count_distinct",
    "approx_count_distinct(x) -> BIGINT",
    "Counts distinct values, exactly.",
    _distinct_count,
)
_aggregate("sum", "sum(number) -> BIGINT | DOUBLE | DECIMAL", "Adds values up.", _sum)
_aggregate("avg", "avg(number) -> DOUBLE | DECIMAL", "Gives the mean.", _avg, "mean")
_aggregate(
    "try_sum",
    "try_sum(number) -> BIGINT | DOUBLE | DECIMAL",
    "Adds values up; a sum that does not fit its type is NULL.",
    _trying(_sum),
    dialects=SPARK,
)
_aggregate(
    "try_avg",
    "try_avg(number) -> DOUBLE | DECIMAL",
    "Gives the mean; NULL where the sum does not fit its type.",
    _trying(_avg),
    dialects=SPARK,
)
_aggregate("min", "min(x) -> x", "Gives the least value.", _extreme)
_aggregate("max", "max(x) -> x", "Gives the greatest value; NaN is greatest.", _extreme)
_aggregate("min_by", "min_by(x, y) -> x", "Gives x of the row where y is least.", _extreme_by)
_aggregate("max_by", "max_by(x, y) -> x", "Gives x of the row where y is greatest.", _extreme_by)
_aggregate(
    "first",
    "first(x [, ignore nulls BOOLEAN]) -> x",
    "Gives the value of the first row; flink's first_value that of the first without NULL.",
    _place("first"),
    "first_value",
)
_aggregate(
    "last",
    "last(x [, ignore nulls BOOLEAN]) -> x",
    "Gives the value of the last row; flink's last_value that of the last without NULL.",
    _place("last"),
    "last_value",
)
_aggregate("any_value", "any_value(x) -> x", "Gives the value of a row.", _place("first"))
_aggregate(
    "bool_and", "bool_and(BOOLEAN) -> BOOLEAN", "Whether all are true.", _logical("bool_and"),
    "every",
)  # fmt: skip
_aggregate(
    "bool_or", "bool_or(BOOLEAN) -> BOOLEAN", "Whether any is true.", _logical("bool_or"),
    "some", "any",
)  # fmt: skip
_aggregate("bit_and", "bit_and(integer) -> integer", "Combines bits by AND.", _bits)
_aggregate("bit_or", "bit_or(integer) -> integer", "Combines bits by OR.", _bits)
_aggregate("bit_xor", "bit_xor(integer) -> integer", "Combines bits by XOR.", _bits)
for _name, _about, _synonyms in (
    ("stddev_samp", "Gives the standard deviation of a sample.", ("stddev", "std")),
    ("stddev_pop", "Gives the standard deviation of a population.", ()),
    ("var_samp", "Gives the variance of a sample.", ("variance",)),
    ("var_pop", "Gives the variance of a population.", ()),
    ("skewness", "Gives the skewness of a population.", ()),
    ("kurtosis", "Gives the excess kurtosis of a population.", ()),
):
    _aggregate(_name, f"{_name}(number) -> DOUBLE", _about, _moments(_name), *_synonyms)
for _name, _about in (
    ("covar_pop", "Gives the covariance of a population."),
    ("covar_samp", "Gives the covariance of a sample."),
    ("corr", "Gives Pearson's coefficient of correlation."),
):
    _aggregate(_name, f"{_name}(number, number) -> DOUBLE", _about, _moments(_name, 2))
_aggregate(
    "listagg",
    "listagg(x [, separator]) [WITHIN GROUP (ORDER BY …)] -> STRING",
    "Joins values as text; the separator is empty in the spark dialect, a comma in flink.",
    _listagg,
    "string_agg",
    "group_concat",
)
_aggregate(
    "collect_list",
    "collect_list(x) -> ARRAY<x>",
    "Gives the values that are not NULL; an empty array where there are none.",
    _collected("collect_list"),
)
_aggregate(
    "collect_set",
    "collect_set(x) -> ARRAY<x>",
    "Gives the distinct values, as they first occur.",
    _collected("collect_set"),
)
_aggregate(
    "array_agg",
    "array_agg(x) -> ARRAY<x>",
    "Is collect_list in the spark dialect; in flink keeps NULLs and gives NULL for no rows.",
    _array_agg,
)
_aggregate("collect", "collect(x)", "Is refused: use array_agg.", _multiset, dialects=FLINK)
_aggregate(
    "percentile",
    "percentile(number, share 0..1) -> DOUBLE",
    "Gives the percentile, interpolated.",
    _percentile,
)
_aggregate(
    "percentile_cont",
    "percentile_cont(share) WITHIN GROUP (ORDER BY number) -> DOUBLE",
    "Gives the percentile, interpolated.",
    _percentile,
)
_aggregate(
    "percentile_disc",
    "percentile_disc(share) WITHIN GROUP (ORDER BY x) -> x",
    "Gives the least value with at least this share of the values up to it.",
    _percentile,
)
_aggregate(
    "percentile_approx",
    "percentile_approx(x, share [, accuracy]) -> x",
    "Gives the percentile as percentile_disc does, exactly.",
    _percentile,
    "approx_percentile",
)
_aggregate("median", "median(number) -> DOUBLE", "Gives the middle value.", _median)
_aggregate("mode", "mode(x) -> x", "Gives the most frequent value, the least of several.", _mode)

for _name, _about in (
    ("row_number", "Numbers the rows from 1."),
    ("rank", "Gives 1 plus the number of rows before, peers left out."),
    ("dense_rank", "Numbers the distinct values that are ordered by, from 1."),
):
    _window(_name, f"{_name}() -> INT (spark), BIGINT (flink)", _about, _number_of_row)
_window("percent_rank", "percent_rank() -> DOUBLE", "Gives the rank from 0 to 1.", _relative_rank)
_window(
    "cume_dist",
    "cume_dist() -> DOUBLE",
    "Gives the share of rows that are not after the row and its peers.",
    _relative_rank,
)
_window("ntile", "ntile(n) -> INT", "Cuts the partition into n equal parts.", _ntile)
_window("lag", "lag(x [, offset [, default]]) -> x", "Reads a row before.", _offset)
_window("lead", "lead(x [, offset [, default]]) -> x", "Reads a row after.", _offset)
_window("first_value", "first_value(x) -> x", "Reads the frame's first row.", _place("first_value"))
_window("last_value", "last_value(x) -> x", "Reads the frame's last row.", _place("last_value"))
_window("nth_value", "nth_value(x, n) -> x", "Reads the frame's row n, from 1.", _nth_value)
