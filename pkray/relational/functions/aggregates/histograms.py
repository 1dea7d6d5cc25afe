"""Histograms of bins that lie where the values do: Spark's histogram_numeric, bin for bin.

Source: Spark's NumericHistogram, after Ben-Haim and Tom-Tov, "A streaming parallel decision tree
algorithm" (2010). A value that no bin has gets one; where there are too many, the two nearest
become one. Of pairs that are equally near, chance chooses, from a fixed seed.
"""

import numpy as np
import pyarrow as pa

from pkray.columns.keys import argsort, begins
from pkray.errors import QueryError
from pkray.relational.cancellation import checkpoint
from pkray.relational.functions.aggregates import aggregate
from pkray.relational.functions.aggregates.accumulator import Arrays
from pkray.relational.functions.aggregates.arguments import number, whole_number
from pkray.relational.functions.aggregates.rows import Chosen
from pkray.relational.functions.casts.numbers import decimal_to_float, float_to_decimal, saturated
from pkray.relational.functions.coercion import BIGINT, DOUBLE
from pkray.relational.functions.function import Written
from pkray.relational.plan.expressions import AggregateCall
from pkray.schema.types import TIMESTAMPS, DataField, DataType

TIMES = ("DATE", *TIMESTAMPS)
CHECKED_VALUES = 4096
"""Values between two looks at whether the query is still wanted: some ten milliseconds."""


def _histogram(call: Written) -> aggregate.Resolved:
    value, said = call.exactly(2)
    if value.type.root not in TIMES:
        try:
            value = number.taken(call, 0)
        except QueryError as error:
            raise QueryError(
                f"{call.name} takes a number, a date or a timestamp, not {value.type}",
                **error.values,
            ) from None
    bins = whole_number(call.name, said, "the number of bins", 2)
    fields = (DataField(0, "x", value.type.with_nullable(True)), DataField(1, "y", DOUBLE))
    kind = DataType("ARRAY", element=DataType("ROW", fields=fields))
    return aggregate.Resolved("histogram_numeric", (value,), (bins,), kind)


def _histograms(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    """Give the bins of each group's values, which come in their order."""
    most = call.parameters[0].value
    values = _floats(columns[0])
    counts = np.bincount(groups, minlength=count)
    owners, centres, heights = ([each] for each in _of_few(values, groups, count, most))
    many = np.setdiff1d(groups, owners[0])
    order, ends = argsort([groups], len(groups)), np.cumsum(counts)
    for group in many:
        bins = Bins(most)
        bins.add(values[order[ends[group] - counts[group] : ends[group]]].tolist())
        owners.append(np.full(len(bins.centres), group))
        centres.append(np.array(bins.centres))
        heights.append(np.array(bins.heights))
    owner = np.concatenate(owners)
    row = argsort([owner], len(owner))
    kind = call.type.arrow
    inside = pa.StructArray.from_arrays(
        [_typed(np.concatenate(centres)[row], call.type), pa.array(np.concatenate(heights)[row])],
        fields=list(kind.value_type),
    )
    offsets = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=count))))
    empty = pa.array(counts == 0)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inside, type=kind, mask=empty)


def _of_few(
    values: np.ndarray, groups: np.ndarray, count: int, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give a bin a value to groups of no more values than bins, whatever their order.

    Returns:
        each bin's group, int64, its centre and its height, float64; none of groups that have more
        values than bins, or NaN, which equals nothing.
    """
    order = np.lexsort((values, groups))
    sorted_groups, sorted_values = groups[order], values[order]
    first = np.flatnonzero(begins([sorted_groups, sorted_values], len(order)))
    owner = sorted_groups[first]
    few = np.bincount(owner, minlength=count) <= most
    few &= np.bincount(groups, np.isnan(values), count) == 0
    kept = few[owner]
    heights = np.diff(first, append=len(order)).astype(np.float64)
    return owner[kept], sorted_values[first][kept], heights[kept]


class Bins:
    """The bins of one group: their centres, which ascend, and how many values each has.

    Args:
        most: bins there may be.
    """

    def __init__(self, most: int) -> None:
        self.centres: list[float] = []
        self.heights: list[float] = []
        self._most = most
        self._chance = (31183 ^ 0x5DEECE66D) & _BITS

    def add(self, values: list[float]) -> None:
        """Add values in their order.

        Each moves the bins that the next one meets: no array computes that at once.
        """
        for place, value in enumerate(values):
            if place % CHECKED_VALUES == 0:
                checkpoint()
            self._add(value)

    def _add(self, value: float) -> None:
        centres = self.centres
        at, low, high = 0, 0, len(centres)
        while low < high:
            at = (low + high) // 2
            if centres[at] > value:
                high = at
            elif centres[at] < value:
                at += 1
                low = at
            else:
                break  # it is equal, or one is NaN
        if at < len(centres) and centres[at] == value:
            self.heights[at] += 1.0
            return
        centres.insert(at, value)
        self.heights.insert(at, 1.0)
        if len(centres) > self._most:
            self._merge(self._nearest())

    def _nearest(self) -> int:
        """Find the first of the two bins that are nearest to each other."""
        centres = self.centres
        least, found, alike = centres[1] - centres[0], 0, 1
        for place in range(1, len(centres) - 1):
            away = centres[place + 1] - centres[place]
            if away < least:
                least, found, alike = away, place, 1
            elif away == least:
                alike += 1
                if self._random() <= 1.0 / alike:
                    found = place
        return found

    def _merge(self, at: int) -> None:
        centres, heights = self.centres, self.heights
        height, beside = heights[at], heights.pop(at + 1)
        total = height + beside
        centres[at] = centres[at] * (height / total) + centres.pop(at + 1) / total * beside
        heights[at] = total

    def _random(self) -> float:
        """Give java.util.Random's next double."""
        return ((self._next() >> 22 << 27) + (self._next() >> 21)) * 2.0**-53

    def _next(self) -> int:
        self._chance = (self._chance * 0x5DEECE66D + 0xB) & _BITS
        return self._chance


_BITS = (1 << 48) - 1


def _floats(column: pa.Array) -> np.ndarray:
    """Give values as float64: times as the number that they are in memory."""
    if pa.types.is_decimal(column.type):
        column = decimal_to_float(column)
    elif pa.types.is_temporal(column.type):
        column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return np.asarray(column.cast(pa.float64(), safe=False))


def _typed(centres: np.ndarray, kind: DataType) -> pa.Array:
    """Give centres in the type of the values: whole numbers and times are cut."""
    assert kind.element is not None
    assert kind.element.fields is not None
    value, numbers = kind.element.fields[0].type, pa.array(centres)
    if value.root == "DECIMAL":
        return float_to_decimal(numbers, DOUBLE, value)[0]
    if pa.types.is_floating(value.arrow):
        return numbers.cast(value.arrow, safe=False)
    whole, _ = saturated(numbers, DOUBLE, BIGINT)
    if pa.types.is_temporal(value.arrow) and value.arrow.bit_width == 32:
        whole = whole.cast(pa.int32())
    return whole.view(value.arrow) if value.root in TIMES else whole.cast(value.arrow)


aggregate.compute("histogram_numeric", accumulate=Chosen.of_all(_histograms))
aggregate.define_aggregate(
    "histogram_numeric(x, bins) -> ARRAY<ROW<x, y DOUBLE>>",
    "Gives bins that lie where the values do: centres, and how many values each has.",
    _histogram,
    dialects=aggregate.SPARK,
)
