"""Aggregates computed: a value a group, from batches of rows whose groups are numbered.

`accumulator` gives what takes batches; `grouped_aggregate` does one batch at once; `fold_of` says
how parts are computed and merged. Three kinds of accumulators:

- numbers a group that each batch is added to: counts, sums, means, extremes, moments;
- chosen ``rows``: those that can still matter, as for the greatest text and for distinct values;
- collected ``rows``: all, for lists and percentiles.

All but the third need memory for groups, not for rows.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pkray.relational.functions.aggregates.accumulator import (
    Accumulator,
    Arrays,
    required_arguments,
)
from pkray.relational.functions.aggregates.catalogue import computation
from pkray.relational.functions.aggregates.folds import Fold
from pkray.relational.functions.aggregates.rows import Chosen, distinct_rows, nothing
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
    known = facts(call.function)
    if known.distinct_of:
        return accumulator(replace(call, function=known.distinct_of, distinct=True), types)
    if call.distinct and not known.same_if_distinct:
        return Chosen(call, distinct_rows(len(types)), _without_distinct, required_arguments(call))
    return computation(call.function).accumulate(call, types)


def _without_distinct(
    call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays
) -> pa.Array:
    if not columns:
        return nothing(call, count)
    plain = replace(call, distinct=False, order_by=())
    return grouped_aggregate(plain, groups, count, columns[: len(call.arguments)])


def fold_of(call: AggregateCall, kinds: Sequence[pa.DataType]) -> Fold | None:
    """Find how a call is computed in parts; None: only of all rows of a group at once.

    Args:
        kinds: of the arguments.
    """
    if facts(call.function).distinct_of:
        return None
    fold = computation(call.function).fold
    return None if fold is None else fold(kinds)
