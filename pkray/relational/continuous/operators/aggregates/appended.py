"""Aggregates of rows that are only added: what was computed so far is one more row."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.keys import list_parts
from pkray.relational.continuous.operators.aggregates.accumulators import (
    Accumulator,
    Columns,
    Numbers,
    Restored,
    Take,
    ordered,
)
from pkray.relational.continuous.operators.aggregates.groups import Groups
from pkray.relational.continuous.operators.replacement import joined
from pkray.relational.functions.aggregates.kernels import grouped_aggregate
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.expressions import AggregateCall
from pkray.schema.types import DataType


class Combined(Accumulator):
    """Aggregates the value so far and the new ones: the least, the greatest, bits."""

    def __init__(self, take: Take, call: AggregateCall) -> None:
        self._take = take
        self._call = replace(call, filter=None, distinct=False)
        self.columns = (("value", call.type.arrow),)

    def advance(self, before: Columns, groups: Groups) -> list[pa.Array]:
        taken = self._take(groups)
        rows = np.concatenate([np.arange(groups.count), taken.groups])
        values = joined(before[0], taken.arguments[0])
        return [grouped_aggregate(self._call, rows, groups.count, [values])]

    def mergeable(self, kept: Columns) -> tuple[list[Numbers], Restored]:
        return ordered(kept[0], greatest=facts(self._call.function).is_last)


class Chosen(Accumulator):
    """Keeps the row that an aggregate chooses: the first, the last, that of the least value.

    Args:
        take: the call's arguments, then the columns of its order.
    """

    def __init__(self, take: Take, call: AggregateCall, types: Sequence[pa.DataType]) -> None:
        self._take = take
        self._by = facts(call.function).required_from or None
        self._call = replace(
            call,
            filter=None,
            distinct=False,
            ignore_nulls=False,
            parameters=(),
            type=DataType("BIGINT"),
        )
        self._arguments = len(call.arguments)
        named = [f"value{place or ''}" for place in range(len(types))]
        self.columns = (("is_there", pa.bool_()), *zip(named, types, strict=True))

    def advance(self, before: Columns, groups: Groups) -> list[pa.Array]:
        taken = self._take(groups)
        known = np.flatnonzero(np.asarray(pc.fill_null(before[0], False)))
        pairs = zip(before[1:], taken.arguments, strict=True)
        columns = [joined(old.take(known), new) for old, new in pairs]
        rows = np.concatenate([known, taken.groups])
        numbers = pa.array(np.arange(len(rows)))
        arguments = [numbers] if self._by is None else [numbers, columns[self._by]]
        order = columns[self._arguments :]
        won = grouped_aggregate(self._call, rows, groups.count, arguments, None, order)
        return [won.is_valid(), *(column.take(won) for column in columns)]


class Collected(Accumulator):
    """Keeps the values in the order in which they came."""

    def __init__(self, take: Take, call: AggregateCall, kind: DataType) -> None:
        self._take = take
        self._call = AggregateCall(
            "array_agg",
            call.arguments,
            DataType("ARRAY", element=kind.with_nullable(True)),
            distinct=call.distinct or bool(facts(call.function).distinct_of),
        )
        self.columns = (("values", self._call.type.arrow),)

    def advance(self, before: Columns, groups: Groups) -> list[pa.Array]:
        taken = self._take(groups)
        _, lengths, (values,) = list_parts(before[0])
        rows = np.concatenate([np.repeat(np.arange(groups.count), lengths), taken.groups])
        if len(values) != int(lengths.sum()):
            values = before[0].flatten()
        everything = joined(values, taken.arguments[0])
        return [grouped_aggregate(self._call, rows, groups.count, [everything])]

    @staticmethod
    def result(call: AggregateCall, values: pa.Array) -> pa.Array:
        """Give what a call makes of the values; `values` is NULL for none."""
        kind = call.type.arrow
        if call.function == "listagg":
            separator = pa.scalar(call.parameters[0].value, kind)
            return pc.binary_join(values.cast(pa.list_(kind)), separator)
        if call.function == "array_agg":
            return values.cast(kind)
        none = pa.array([[]], values.type)
        places = np.where(np.asarray(values.is_null()), len(values), np.arange(len(values)))
        return pa.concat_arrays([values, none]).take(pa.array(places)).cast(kind)
