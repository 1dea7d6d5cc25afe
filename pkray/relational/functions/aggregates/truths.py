"""Conditions and bits, combined."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pkray.relational.functions.aggregates import aggregate
from pkray.relational.functions.aggregates.accumulator import Accumulator, Arrays
from pkray.relational.functions.aggregates.arguments import CONDITION, INTEGER
from pkray.relational.functions.aggregates.ends import Extreme
from pkray.relational.functions.aggregates.folds import Fold, State, as_it_is, first_argument
from pkray.relational.functions.coercion import BIGINT, BOOLEAN, cast_to, is_null_literal
from pkray.relational.functions.function import Written
from pkray.relational.functions.numbers.exact_sums import GroupNumbers
from pkray.relational.plan.expressions import AggregateCall, Literal


def _logical(name: str) -> aggregate.Resolver:
    def resolve(call: Written) -> aggregate.Resolved:
        (condition,) = call.taken(CONDITION)
        return aggregate.Resolved(name, (cast_to(condition, BOOLEAN),), (), BOOLEAN)

    return resolve


def _bits(call: Written) -> aggregate.Resolved:
    (argument,) = call.taken(INTEGER)
    if is_null_literal(argument):
        argument = Literal(BIGINT, None)
    return aggregate.Resolved(call.name, (argument,), (), argument.type.with_nullable(True))


class Bits(Accumulator):
    """Integers combined bit by bit."""

    def __init__(self, call: AggregateCall, types: Sequence[pa.DataType] = ()) -> None:
        super().__init__(call, types)
        self.seen = GroupNumbers(np.bool_)
        self.combine: Any = getattr(np, f"bitwise_{call.function.removeprefix('bit_')}")
        self.values = GroupNumbers(np.int64, -1 if call.function == "bit_and" else 0)

    def _add(self, groups: np.ndarray, count: int, columns: Arrays) -> None:
        self.seen.to(count)[groups] = True
        self.combine.at(self.values.to(count), groups, np.asarray(columns[0]).astype(np.int64))

    def finish(self, count: int) -> pa.Array:
        empty = ~self.seen.to(count)[:count]
        values = np.where(empty, 0, self.values.to(count)[:count])
        return pa.array(values, mask=empty).cast(self.call.type.arrow)


def _fold(function: str) -> aggregate.MakeFold:
    return lambda kinds: Fold("values", first_argument, (State(function, function),), as_it_is)


aggregate.compute("bool_and", accumulate=Extreme, fold=_fold("all"))
aggregate.compute("bool_or", accumulate=Extreme, fold=_fold("any"))
aggregate.compute("bit_and", "bit_or", "bit_xor", accumulate=Bits)
aggregate.define_aggregate(
    "bool_and(BOOLEAN) -> BOOLEAN", "Whether all are true.", _logical("bool_and"),
    "every",
)  # fmt: skip
aggregate.define_aggregate(
    "bool_or(BOOLEAN) -> BOOLEAN", "Whether any is true.", _logical("bool_or"),
    "some", "any",
)  # fmt: skip
aggregate.define_aggregate("bit_and(integer) -> integer", "Combines bits by AND.", _bits)
aggregate.define_aggregate("bit_or(integer) -> integer", "Combines bits by OR.", _bits)
aggregate.define_aggregate("bit_xor(integer) -> integer", "Combines bits by XOR.", _bits)
