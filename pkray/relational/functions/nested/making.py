"""Functions that make arrays of values."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pkray.errors import EvaluationError, QueryError
from pkray.relational.functions import signatures
from pkray.relational.functions.coercion import STRING, any_nullable, coerced
from pkray.relational.functions.function import NO_SPARK, Value, Written, typed_call, wrong_argument
from pkray.relational.functions.nested.arguments import (
    ARRAY,
    INTEGER,
    NESTED,
    Values,
    array_type,
    element_of,
    element_place,
)
from pkray.relational.functions.nested.lists import Lists, whole_numbers
from pkray.relational.functions.time.calendar import Times, plus_months, times_of
from pkray.relational.functions.values import as_array, null_rows, refuse
from pkray.relational.plan.expressions import Call, ColumnRef, Expression
from pkray.schema.types import TIMESTAMPS, DataField, DataType


def _array(call: Written) -> Expression:
    return typed_call("array", *coerced(call.arguments, call.dialect, "elements of an array"))


def _type_of_array(arguments: tuple[Expression, ...]) -> DataType:
    if not arguments:
        return array_type(STRING, False)
    return array_type(arguments[0].type.with_nullable(any_nullable(arguments)), False)


def interleaved(columns: list[pa.Array], rows: int) -> pa.Array:
    """Give the values of the first row, of the second, ….

    Args:
        columns: of one type, each of `rows` values.
    """
    order = np.arange(rows)[:, None] + rows * np.arange(len(columns))[None, :]
    return pa.concat_arrays(columns).take(pa.array(order.ravel()))


@NESTED.infallible.kernel("array(x, …) -> ARRAY<x>", "Make an array.", _array, _type_of_array)
def _array_kernel(call: Call, values: Values, rows: int) -> Value:
    kind = call.type.arrow.value_type
    columns = [as_array(value, rows).cast(kind) for value in values]
    woven = interleaved(columns, rows) if columns else pa.array([], kind)
    return Lists(np.full(rows, len(columns)), woven).array(call.type)


@NESTED.infallible.kernel(
    "array_repeat(x, count) -> ARRAY<x>",
    "Make an array of one value.",
    signatures.takes(signatures.anything, element_place),
    lambda arguments: array_type(arguments[0].type, arguments[1].type.nullable),
)
def _repeat_kernel(call: Call, values: Values, rows: int) -> Value:
    counts = np.maximum(whole_numbers(values[1], rows), 0)
    elements = as_array(values[0], rows).take(pa.array(np.repeat(np.arange(rows), counts)))
    return Lists(counts, elements).array(call.type, null_rows([values[1]], rows))


def _zip(call: Written) -> Expression:
    """Resolve arrays_zip: the fields are called as the columns, else by their places."""
    parts: list[Expression] = []
    for place, each in enumerate(call.taken(ARRAY, rest=ARRAY)):
        name = each.name if isinstance(each, ColumnRef) else str(place)
        parts += [signatures.text_literal(name), each]
    return typed_call("arrays_zip", *parts)


def _zip_type(arguments: tuple[Expression, ...]) -> DataType:
    pairs = zip(arguments[::2], arguments[1::2], strict=True)
    fields = tuple(
        DataField(place, str(getattr(name, "value", "")), element_of(array).with_nullable(True))
        for place, (name, array) in enumerate(pairs)
    )
    return array_type(DataType("ROW", False, fields=fields), any_nullable(arguments))


@NESTED.infallible.kernel(
    "arrays_zip(ARRAY, …) -> ARRAY<ROW>",
    "Make rows of the elements at one place; the shorter arrays' are NULL.",
    _zip,
    _zip_type,
    NO_SPARK,
)
def _zip_kernel(call: Call, values: Values, rows: int) -> Value:
    parts = [Lists.of(value, rows) for value in values[1::2]]
    null = null_rows(values, rows)
    both, columns = side_by_side(parts, null)
    kind = call.type.arrow.value_type
    fields = [kind.field(place) for place in range(len(columns))]
    made = pa.StructArray.from_arrays(columns, fields=fields)
    return replace(both, values=made).array(call.type, null)


MOST_ELEMENTS = 2**31 - 1
"""Most elements that the arrays of one batch have: Arrow counts them in 32 bits."""


def _check_elements(counts: np.ndarray) -> None:
    if counts.sum(dtype=np.float64) > MOST_ELEMENTS:
        raise EvaluationError(
            f"sequence makes {counts.sum(dtype=np.float64):.0f} elements at once; at most "
            f"{MOST_ELEMENTS} fit",
            function="sequence",
        )


_OF_INTEGERS = signatures.takes(INTEGER, INTEGER, INTEGER, least=2, alike=True)
_TIMES = ("DATE", *TIMESTAMPS)
_DAY = 86_400_000_000


def _sequence(call: Written) -> Expression:
    """Count integers, or times, whose step is given as months and microseconds."""
    if not any(each.type.root in _TIMES for each in call.arguments[:2]):
        return _OF_INTEGERS(call)
    if len(call.arguments) not in (2, 4):
        raise QueryError("sequence of times takes its step as an INTERVAL", function="sequence")
    pair = coerced(call.arguments[:2], call.dialect, "arguments of sequence")
    if pair[0].type.root not in _TIMES:
        raise wrong_argument("sequence", 0, call.arguments[0], "two dates or two timestamps")
    return typed_call("sequence_of_times", *pair, *call.arguments[2:])


def _times_kernel(call: Call, values: Values, rows: int) -> Value:
    null = null_rows(values, rows)
    start, stop = (times_of(as_array(each, rows)) for each in values[:2])
    forward = start.ticks <= stop.ticks
    if len(values) > 2:
        months, micros = (whole_numbers(each, rows) for each in values[2:])
    else:
        months, micros = np.zeros(rows, np.int64), np.where(forward, _DAY, -_DAY)
    finer, coarser = max(start.per_day // _DAY, 1), max(_DAY // start.per_day, 1)
    step = micros * finer // coarser
    size = months * 28 * start.per_day + step
    wrong = ((size == 0) & (start.ticks != stop.ticks)) | (
        (stop.ticks - start.ticks) * np.sign(size) < 0
    )
    refuse(call, values, pa.array(wrong), "never reaches its end", rows)
    most = np.where(null, 0, (stop.ticks - start.ticks) // np.where(size == 0, 1, size) + 1)
    _check_elements(most)
    lists = Lists(most, pa.nulls(0))
    of = lists.parents
    begun = Times(start.ticks[of], start.per_day)
    moved = begun.on(plus_months(begun.days, months[of] * lists.places)).ticks
    ticks = moved + step[of] * lists.places
    inside = np.where(forward[of], ticks <= stop.ticks[of], ticks >= stop.ticks[of])
    counts = np.bincount(of[inside], minlength=rows).astype(np.int64)
    whole = np.int32 if start.per_day == 1 else np.int64
    made = pa.array(ticks[inside].astype(whole)).view(call.type.arrow.value_type)
    return Lists(counts, made).array(call.type, null)


def _times_spark(call: Call, arguments: Sequence[str]) -> str:
    if len(arguments) == 2:
        return f"sequence({', '.join(arguments)})"
    raise NotImplementedError


NESTED.add_inner(
    "sequence_of_times",
    "Count times; the step is months and microseconds.",
    _times_kernel,
    lambda arguments: array_type(arguments[0].type.with_nullable(False), any_nullable(arguments)),
    _times_spark,
)


@NESTED.kernel(
    "sequence(start, stop [, step]) -> ARRAY<integer | time>",
    "Count from start to stop, both included; of times the step is an INTERVAL, or a day.",
    _sequence,
    lambda arguments: array_type(arguments[0].type.with_nullable(False), any_nullable(arguments)),
)
def _sequence_kernel(call: Call, values: Values, rows: int) -> Value:
    null = null_rows(values, rows)
    start, stop, *said = (whole_numbers(each, rows) for each in values)
    step = said[0] if said else np.where(start <= stop, 1, -1)
    wrong = ((step == 0) & (start != stop)) | ((stop - start) * np.sign(step) < 0)
    refuse(call, values, pa.array(wrong), "never reaches its end", rows)
    counts = np.where(null, 0, (stop - start) // np.where(step == 0, 1, step) + 1)
    _check_elements(counts)
    lists = Lists(counts, pa.nulls(0))
    numbers = start[lists.parents] + lists.places * step[lists.parents]
    made = pa.array(numbers).cast(call.type.arrow.value_type)
    return replace(lists, values=made).array(call.type, null)


def side_by_side(parts: list[Lists], null: np.ndarray) -> tuple[Lists, list[pa.Array]]:
    """Give the elements of arrays place by place, NULL where one is shorter.

    Returns:
        how many places each row has, and a column an array.
    """
    lengths = np.max([part.lengths for part in parts], axis=0)
    both = Lists(np.where(null, 0, lengths), pa.nulls(0))
    columns = []
    for part in parts:
        missing = both.places >= part.lengths[both.parents]
        index = np.where(missing, 0, part.begins[both.parents] + both.places)
        columns.append(part.values.take(pa.array(index, mask=missing)))
    return both, columns
