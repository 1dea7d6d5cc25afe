"""Counts of rows and of distinct values."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import whole
from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.aggregates.accumulator import Accumulator, Arrays
from pkray.relational.functions.aggregates.aggregate import Resolved, compute, define_aggregate
from pkray.relational.functions.aggregates.arguments import CONDITION
from pkray.relational.functions.aggregates.folds import Columns, Fold, State, first_argument
from pkray.relational.functions.coercion import BIGINT, with_one_zero
from pkray.relational.functions.function import Written
from pkray.relational.functions.numbers.exact_sums import GroupNumbers
from pkray.relational.functions.signatures import constant
from pkray.relational.plan.expressions import AggregateCall


def _count(call: Written) -> Resolved:
    if not call.arguments and call.distinct:
        raise QueryError("COUNT(DISTINCT *) is not defined: name columns", function="count")
    return Resolved("count", call.arguments, (), BIGINT.with_nullable(False))


def _count_if(call: Written) -> Resolved:
    return Resolved("count_if", call.taken(CONDITION), (), BIGINT.with_nullable(False))


def _distinct_count(call: Written) -> Resolved:
    value, *said = call.between(1, 2)
    for accuracy in said:
        constant(call.name, accuracy, "the accuracy")
    value = with_one_zero(value) if call.dialect is Dialect.SPARK else value
    return Resolved("approx_count_distinct", (value,), (), BIGINT.with_nullable(False))


class Count(Accumulator):
    """Rows without NULLs."""

    def __init__(self, call: AggregateCall, types: Sequence[pa.DataType] = ()) -> None:
        super().__init__(call, types)
        self.counts = GroupNumbers(np.int64)

    def _add(self, groups: np.ndarray, count: int, columns: Arrays) -> None:
        counts = self.counts.to(count)
        if 2 * len(groups) > count:
            counts[:count] += np.bincount(groups, minlength=count)
        else:
            np.add.at(counts, groups, 1)

    def finish(self, count: int) -> pa.Array:
        return pa.array(self.counts.to(count)[:count])


class CountIf(Count):
    """Rows where the argument is true."""

    def _kept(self, arguments: Arrays, filter: pa.Array | None) -> np.ndarray | None:
        kept = super()._kept((), filter)
        true = np.asarray(pc.fill_null(arguments[0], False))
        return true if kept is None else kept & true


COUNT = State("count", "sum")


def _all_there(columns: Columns) -> pa.Array:
    there = np.ones(len(columns[0]), bool)
    for column in columns:
        if column.null_count:
            there &= np.asarray(whole(pc.is_valid(column)))
    return pa.array(there, mask=~there)


def _trues(columns: Columns) -> pa.Array | pa.ChunkedArray:
    return pc.if_else(columns[0], True, pa.scalar(None, pa.bool_()))


def _counted(call: AggregateCall, states: Sequence[pa.Array]) -> pa.Array:
    return pc.fill_null(states[0], 0)


def _count_fold(kinds: Sequence[pa.DataType]) -> Fold:
    if len(kinds) > 1:
        return Fold("there", _all_there, (COUNT,), _counted)
    return Fold("values", first_argument, (COUNT,), _counted)


compute("count", accumulate=Count, fold=_count_fold)
compute(
    "count_if", accumulate=CountIf, fold=lambda kinds: Fold("trues", _trues, (COUNT,), _counted)
)
define_aggregate("count(* | x, …) -> BIGINT", "Counts rows, or rows without NULLs.", _count)
define_aggregate("count_if(BOOLEAN) -> BIGINT", "Counts rows where it is true.", _count_if)
define_aggregate(
    "approx_count_distinct(x) -> BIGINT", "Counts distinct values, exactly.", _distinct_count
)
