"""Aggregates computed: a value a group, from batches of rows whose groups are numbered.

`accumulator` gives what takes batches; `grouped_aggregate` does one batch at once. Three kinds:

- ``numbers`` a group that each batch is added to: counts, sums, means, extremes, moments;
- chosen ``rows``: those that can still matter, as for the greatest text and for distinct values;
- collected ``rows``: all, for lists and percentiles.

All but the third need memory for groups, not for rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pkray.relational.functions.aggregates.accumulator import Accumulator, Arrays
from pkray.relational.functions.aggregates.numbers import (
    Average,
    Bits,
    Count,
    CountIf,
    Extreme,
    Moments,
    Sum,
    is_number,
)
from pkray.relational.functions.aggregates.rows import (
    Chosen,
    Finish,
    best_by,
    chosen_winner,
    collected_values,
    distinct_rows,
    first_rows,
    joined_text,
    last_rows,
    most_frequent,
    nothing,
    percentiles,
    shapes,
    user_values,
    winner,
)
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.expressions import AggregateCall


def grouped_aggregate(
    call: AggregateCall,
    groups: np.ndarray,
    count: int,
    arguments: Arrays,
    filter: pa.Array | None = None,
    order: Arrays = (),
) -> pa.Array:
    """Aggregate all rows at once; the arguments are as those of `Accumulator.update`.

    Returns:
        `count` values of the call's Arrow type, in the groups' order.
    """
    state = accumulator(call, [array.type for array in arguments])
    state.update(groups, count, arguments, filter, order)
    return state.finish(count)


def accumulator(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
    """Give what computes an aggregate from batches.

    Args:
        types: of the arguments.
    """
    if call.function == "udf" and not call.distinct:
        return Chosen(call, None, user_values, slice(0, 0))
    if call.distinct and not facts(call.function).same_if_distinct:
        return Chosen(call, distinct_rows(len(types)), _without_distinct, required_arguments(call))
    if call.function in ("approx_count_distinct", "collect_set"):
        plain = "count" if call.function == "approx_count_distinct" else "collect_list"
        return accumulator(replace(call, function=plain, distinct=True), types)
    return _KINDS[call.function](call, types)


def _without_distinct(
    call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays
) -> pa.Array:
    if not columns:
        return nothing(call, count)
    plain = replace(call, distinct=False, order_by=())
    return grouped_aggregate(plain, groups, count, columns[: len(call.arguments)])


def _extreme(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
    if is_number(types[0]):
        return Extreme(call, types)
    return Chosen(call, best_by(0, greatest=facts(call.function).is_last), winner)


def _extreme_by(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
    return Chosen(
        call, best_by(1, greatest=facts(call.function).is_last), winner, required_arguments(call)
    )


def _place(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
    choose = last_rows if facts(call.function).is_last else first_rows
    if call.order_by:
        return Chosen(call, None, chosen_winner(choose), required_arguments(call))
    return Chosen(call, choose, winner, required_arguments(call))


def _collected(end: Finish) -> Callable[[AggregateCall, Sequence[pa.DataType]], Accumulator]:
    return lambda call, types: Chosen(call, None, end, required_arguments(call))


def required_arguments(call: AggregateCall) -> slice:
    """Say which arguments must not be NULL."""
    known = facts(call.function)
    ignored = call.ignore_nulls or any(each.value is True for each in call.parameters)
    return slice(0, 0) if known.keeps_nulls and not ignored else slice(known.required_from, None)


_KINDS: dict[str, Callable[[AggregateCall, Sequence[pa.DataType]], Accumulator]] = {
    "count": Count,
    "count_if": CountIf,
    **dict.fromkeys(("sum", "sum_wrapping", "try_sum"), Sum),
    **dict.fromkeys(("avg", "avg_truncating", "try_avg"), Average),
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("min_by", "max_by"), _extreme_by),
    **dict.fromkeys(("bool_and", "bool_or"), Extreme),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), Bits),
    **dict.fromkeys(("first", "last", "first_value", "last_value"), _place),
    **dict.fromkeys(
        ("var_pop", "var_samp", "stddev_pop", "stddev_samp", "covar_pop", "covar_samp", "corr"),
        Moments,
    ),
    **dict.fromkeys(("collect_list", "array_agg"), _collected(collected_values)),
    "listagg": _collected(joined_text),
    **dict.fromkeys(("percentile_cont", "percentile_disc"), _collected(percentiles)),
    "mode": _collected(most_frequent),
    **dict.fromkeys(("skewness", "kurtosis"), _collected(shapes)),
}
