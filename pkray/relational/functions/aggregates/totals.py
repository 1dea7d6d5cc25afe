"""Aggregates to which each row adds: counts, sums, means, moments, bits.

They give NULL for a group without values, counts excepted, and leave NULLs out.
"""

from __future__ import annotations

from dataclasses import replace

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.aggregates.aggregate import (
    SPARK,
    Resolved,
    Resolver,
    Written,
    define_aggregate,
)
from pkray.relational.functions.aggregates.arguments import CONDITION, INTEGER, number
from pkray.relational.functions.coercion import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    FLOATS,
    cast_to,
    is_null_literal,
    with_one_zero,
)
from pkray.relational.functions.signatures import check_count, constant
from pkray.relational.plan.expressions import Literal
from pkray.schema.types import INTEGERS


def _count(call: Written) -> Resolved:
    if not call.arguments and call.distinct:
        raise QueryError("COUNT(DISTINCT *) is not defined: name columns", function="count")
    return Resolved("count", call.arguments, (), BIGINT.with_nullable(False))


def _count_if(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 1, 1)
    CONDITION.taken(call.name, call.arguments, 0, call.dialect)
    return Resolved("count_if", call.arguments, (), BIGINT.with_nullable(False))


def _distinct_count(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 1, 2)
    for accuracy in call.arguments[1:]:
        constant(call.name, accuracy, "the accuracy")
    value = call.arguments[0]
    value = with_one_zero(value) if call.dialect is Dialect.SPARK else value
    return Resolved("approx_count_distinct", (value,), (), BIGINT.with_nullable(False))


def _sum(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 1, 1)
    argument = number.taken(call.name, call.arguments, 0, call.dialect)
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
    check_count(call.name, call.arguments, 1, 1)
    argument = number.taken(call.name, call.arguments, 0, call.dialect)
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


def _moments(name: str, count: int = 1) -> Resolver:
    def resolve(call: Written) -> Resolved:
        check_count(call.name, call.arguments, count, count)
        numbers = [number.taken(name, call.arguments, at, call.dialect) for at in range(count)]
        return Resolved(name, tuple(cast_to(each, DOUBLE) for each in numbers), (), DOUBLE)

    return resolve


def _logical(name: str) -> Resolver:
    def resolve(call: Written) -> Resolved:
        check_count(call.name, call.arguments, 1, 1)
        CONDITION.taken(call.name, call.arguments, 0, call.dialect)
        return Resolved(name, (cast_to(call.arguments[0], BOOLEAN),), (), BOOLEAN)

    return resolve


def _bits(call: Written) -> Resolved:
    check_count(call.name, call.arguments, 1, 1)
    argument = INTEGER.taken(call.name, call.arguments, 0, call.dialect)
    if is_null_literal(argument):
        argument = Literal(BIGINT, None)
    return Resolved(call.name, (argument,), (), argument.type.with_nullable(True))


define_aggregate(
    "count", "count(* | x, …) -> BIGINT", "Counts rows, or rows without NULLs.", _count
)
define_aggregate(
    "count_if", "count_if(BOOLEAN) -> BIGINT", "Counts rows where it is true.", _count_if
)
define_aggregate(
    "approx_count_distinct",
    "approx_count_distinct(x) -> BIGINT",
    "Counts distinct values, exactly.",
    _distinct_count,
)
define_aggregate("sum", "sum(number) -> BIGINT | DOUBLE | DECIMAL", "Adds values up.", _sum)
define_aggregate("avg", "avg(number) -> DOUBLE | DECIMAL", "Gives the mean.", _avg, "mean")
define_aggregate(
    "try_sum",
    "try_sum(number) -> BIGINT | DOUBLE | DECIMAL",
    "Adds values up; a sum that does not fit its type is NULL.",
    _trying(_sum),
    dialects=SPARK,
)
define_aggregate(
    "try_avg",
    "try_avg(number) -> DOUBLE | DECIMAL",
    "Gives the mean; NULL where the sum does not fit its type.",
    _trying(_avg),
    dialects=SPARK,
)
define_aggregate(
    "bool_and", "bool_and(BOOLEAN) -> BOOLEAN", "Whether all are true.", _logical("bool_and"),
    "every",
)  # fmt: skip
define_aggregate(
    "bool_or", "bool_or(BOOLEAN) -> BOOLEAN", "Whether any is true.", _logical("bool_or"),
    "some", "any",
)  # fmt: skip
define_aggregate("bit_and", "bit_and(integer) -> integer", "Combines bits by AND.", _bits)
define_aggregate("bit_or", "bit_or(integer) -> integer", "Combines bits by OR.", _bits)
define_aggregate("bit_xor", "bit_xor(integer) -> integer", "Combines bits by XOR.", _bits)
for _name, _about, _synonyms in (
    ("stddev_samp", "Gives the standard deviation of a sample.", ("stddev", "std")),
    ("stddev_pop", "Gives the standard deviation of a population.", ()),
    ("var_samp", "Gives the variance of a sample.", ("variance",)),
    ("var_pop", "Gives the variance of a population.", ()),
    ("skewness", "Gives the skewness of a population.", ()),
    ("kurtosis", "Gives the excess kurtosis of a population.", ()),
):
    define_aggregate(_name, f"{_name}(number) -> DOUBLE", _about, _moments(_name), *_synonyms)
for _name, _about in (
    ("covar_pop", "Gives the covariance of a population."),
    ("covar_samp", "Gives the covariance of a sample."),
    ("corr", "Gives Pearson's coefficient of correlation."),
):
    define_aggregate(_name, f"{_name}(number, number) -> DOUBLE", _about, _moments(_name, 2))


def _regression(call: Written) -> Resolved:
    """Refuse what the parser has not written in other aggregates: DISTINCT, and a wrong count."""
    check_count(call.name, call.arguments, 2, 2)
    raise QueryError(f"{call.name} takes no DISTINCT: select distinct rows first")


for _name, _about in (
    ("regr_count", "Counts rows in which neither is NULL."),
    ("regr_avgx", "Gives the mean of x."),
    ("regr_avgy", "Gives the mean of y."),
    ("regr_sxx", "Gives the sum of squared deviations of x."),
    ("regr_syy", "Gives the sum of squared deviations of y."),
    ("regr_sxy", "Gives the sum of products of deviations."),
    ("regr_slope", "Gives the slope of the line of least squares."),
    ("regr_intercept", "Gives y of the line of least squares where x is 0."),
    ("regr_r2", "Gives the coefficient of determination."),
):
    kind = "BIGINT" if _name == "regr_count" else "DOUBLE"
    define_aggregate(_name, f"{_name}(y, x) -> {kind}", _about, _regression, dialects=SPARK)
