"""Percentiles and the most frequent value: of all values of a group, sorted."""

import numpy as np
import pyarrow as pa

from pkray.columns.keys import argsort, codes, ranks
from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.aggregates.accumulator import Arrays
from pkray.relational.functions.aggregates.aggregate import Resolved, compute, define_aggregate
from pkray.relational.functions.aggregates.arguments import check_ordered, number, whole_number
from pkray.relational.functions.aggregates.rows import Chosen, first_rows, nothing, winner
from pkray.relational.functions.coercion import DOUBLE, NUMBERS, cast_to
from pkray.relational.functions.evaluation.compiled import fold
from pkray.relational.functions.function import Written
from pkray.relational.functions.signatures import constant
from pkray.relational.plan.expressions import AggregateCall, Expression, Literal, SortKey
from pkray.schema.types import DataType


def _share(name: str, said: Expression) -> Literal:
    share = constant(name, said, "the percentage")
    try:
        given = float(share)
    except (TypeError, ValueError):
        given = -1.0
    if not 0 <= given <= 1:
        raise QueryError(
            f"the percentage of {name} must be a number from 0 to 1; {share!r} given", function=name
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
        (said,) = call.exactly(1)
        if len(call.within_group) != 1:
            raise QueryError(
                f"write {call.name}(0.5) WITHIN GROUP (ORDER BY column)", function=call.name
            )
        (value,) = call.within_group
    else:
        value, said, *rest = call.between(2, 3 if "approx" in call.name else 2)
        for accuracy in rest:
            whole_number(call.name, accuracy, "the accuracy", 1)
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
    taken = cast_to(number.taken(call._replace(arguments=(value,)), 0), DOUBLE)
    return Resolved("percentile_cont", (taken,), shares, kind(DOUBLE))


def _median(call: Written) -> Resolved:
    (value,) = call.taken(number)
    half = Literal(DOUBLE.with_nullable(False), 0.5)
    return Resolved("percentile_cont", (cast_to(value, DOUBLE),), (half,), DOUBLE)


def _mode(call: Written) -> Resolved:
    if call.within_group and not call.arguments:
        call = call._replace(arguments=call.within_group)
    value, *rest = call.between(1, 2)
    for said in rest:
        constant(call.name, said, "whether the least of several is taken")
    check_ordered(call.name, value)
    return Resolved("mode", (value,), (), value.type.with_nullable(True))


def _percentiles(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    """Give a percentile of each group's numbers, or an array of some."""
    kind = call.type.arrow
    if not call.parameters:
        return nothing(call, count)
    descending = bool(call.order_by) and call.order_by[0].descending
    rank = ranks(columns[0], SortKey("", descending=descending))
    values = columns[0].take(pa.array(argsort([groups, *rank], len(groups))))
    counts = np.bincount(groups, minlength=count)
    place = _discrete if call.function == "percentile_disc" else _interpolated
    found = [place(values, counts, each.value) for each in call.parameters]
    if not pa.types.is_list(kind):
        return found[0].cast(kind)
    many = len(found)
    rows = np.arange(count * many).reshape(many, count).T.ravel()
    inside = pa.concat_arrays(found).take(pa.array(rows)).cast(kind.value_type)
    offsets = pa.array(np.arange(count + 1) * many, pa.int32())
    return pa.ListArray.from_arrays(offsets, inside, type=kind, mask=pa.array(counts == 0))


def _discrete(values: pa.Array, counts: np.ndarray, share: float) -> pa.Array:
    """Give the least value of each group with a share of its values up to it.

    Args:
        values: of one group after the other, sorted.
        counts: int64, how many of each group.
    """
    place = np.maximum(np.ceil(share * counts).astype(np.int64), 1) - 1
    rows = place + np.cumsum(counts) - counts
    return values.take(pa.array(rows, mask=counts == 0))


def _interpolated(values: pa.Array, counts: np.ndarray, share: float) -> pa.Array:
    """Give what stands at a share of each group's values; as `_discrete`."""
    begins, empty = np.cumsum(counts) - counts, counts == 0
    position = share * np.maximum(counts - 1, 0)
    low, high = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
    numbers = np.asarray(values)
    before, after = (numbers[np.where(empty, 0, begins + each)] for each in (low, high))
    with np.errstate(all="ignore"):
        between = (high - position) * before + (position - low) * after
    exact = (low == high) | (before == after)
    return pa.array(np.where(exact, before, between), mask=empty)


def _most_frequent(
    call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays
) -> pa.Array:
    """Give the most frequent value of each group, the least of several."""
    values = codes([pa.array(groups), columns[0]], len(groups))
    often = np.bincount(values.of_row, minlength=values.count)
    first = values.first_rows()
    (rank,) = ranks(columns[0].take(pa.array(first)), SortKey(""))
    order = argsort([groups[first], -often, rank], len(first))
    rows = first[order]
    best = rows[first_rows(groups[rows], count, ())]
    return winner(call, groups[best], count, [columns[0].take(pa.array(best))])


compute("percentile_cont", "percentile_disc", accumulate=Chosen.of_all(_percentiles))
compute("mode", accumulate=Chosen.of_all(_most_frequent))
define_aggregate(
    "percentile(number, share 0..1 | ARRAY of them) -> DOUBLE | ARRAY<DOUBLE>",
    "Gives the percentile, interpolated.",
    _percentile,
)
define_aggregate(
    "percentile_cont(share | ARRAY) WITHIN GROUP (ORDER BY number) -> DOUBLE | ARRAY<DOUBLE>",
    "Gives the percentile, interpolated.",
    _percentile,
)
define_aggregate(
    "percentile_disc(share) WITHIN GROUP (ORDER BY x) -> x; DOUBLE of numbers (spark)",
    "Gives the least value with at least this share of the values up to it.",
    _percentile,
)
define_aggregate(
    "percentile_approx(x, share | ARRAY [, accuracy]) -> x | ARRAY<x>",
    "Gives the percentile as percentile_disc does, exactly.",
    _percentile,
    "approx_percentile",
)
define_aggregate("median(number) -> DOUBLE", "Gives the middle value.", _median)
define_aggregate("mode(x) -> x", "Gives the most frequent value, the least of several.", _mode)
