"""Functions that change arrays: sort, cut, join and flatten them."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.keys import argsort, codes, one_zero, ranks
from pkray.errors import QueryError
from pkray.relational.functions.coercion import BOOLEAN, STRING, any_nullable, cast_to, coerced
from pkray.relational.functions.conditional import case_of, is_null
from pkray.relational.functions.function import Kernel, Value, Written, typed_call, wrong_argument
from pkray.relational.functions.nested.arguments import (
    ARRAY,
    FLINK,
    NESTED,
    Values,
    array_type,
    element_of,
    typed_as_first,
    with_element,
    without_nulls,
)
from pkray.relational.functions.nested.comparators import sorted_by
from pkray.relational.functions.nested.elements import equal
from pkray.relational.functions.nested.lists import Lists, whole_numbers
from pkray.relational.functions.signatures import integer, result, takes, text
from pkray.relational.functions.values import as_array, null_rows, refuse
from pkray.relational.plan.expressions import Call, Expression, Lambda, Literal, SortKey
from pkray.schema.types import STRINGS, DataType


def _of_list(change: Callable[[Lists], Lists]) -> Kernel:
    """Make a kernel of what makes one array of another."""

    def kernel(call: Call, values: Values, rows: int) -> Value:
        return change(Lists.of(values[0], rows)).array(call.type)

    return kernel


def _distinct(lists: Lists) -> Lists:
    lists = replace(lists, values=one_zero(lists.values))
    numbers = codes([pa.array(lists.parents), lists.values], len(lists.values))
    return lists.chosen(np.sort(numbers.first_rows()))


def compact(lists: Lists) -> Lists:
    """Leave NULLs out."""
    return lists.chosen(np.flatnonzero(np.asarray(lists.values.is_valid())))


def _sorted(lists: Lists, key: SortKey) -> Lists:
    return lists.chosen(argsort([lists.parents, *ranks(lists.values, key)], len(lists.values)))


def _sort_array(call: Written) -> Expression:
    call = call._replace(name="sort_array")
    array, *said = call.between(1, 2)
    ARRAY.taken(call, 0)
    ascending = said[0] if said else Literal(BOOLEAN.with_nullable(False), True)
    if not isinstance(ascending, Literal) or not isinstance(ascending.value, bool):
        raise QueryError("argument 2 of sort_array must be TRUE or FALSE", function=call.name)
    return typed_call(call.name, array, ascending)


def _array_sort(call: Written) -> Expression:
    """Resolve array_sort(array); flink puts NULLs first and can be told to sort downwards."""
    if call.dialect is FLINK and not any(isinstance(each, Lambda) for each in call.arguments):
        return _sort_array(call)
    if len(call.arguments) > 1:
        return sorted_by(call)
    return takes(ARRAY)(call)


def typed_as_joined(arguments: tuple[Expression, ...]) -> DataType:
    """Give the type of arrays put together; an element can be NULL if one of theirs can."""
    element = element_of(arguments[0])
    inner = any(element_of(each).nullable for each in arguments)
    return array_type(element.with_nullable(inner), any_nullable(arguments))


def _flatten(call: Written) -> Expression:
    (array,) = call.taken(ARRAY)
    if element_of(array).root != "ARRAY":
        raise wrong_argument("flatten", 0, array, "an ARRAY of ARRAYs")
    return typed_call("flatten", array)


def _flatten_type(arguments: tuple[Expression, ...]) -> DataType:
    inner = element_of(arguments[0])
    assert inner.element is not None
    return array_type(inner.element, arguments[0].type.nullable or inner.nullable)


def _array_join(call: Written) -> Expression:
    array, *words = call.taken(ARRAY, text, text, least=2)
    if element_of(array).root not in STRINGS:
        inner = STRING.with_nullable(element_of(array).nullable)
        array = cast_to(array, array_type(inner, True))
    return typed_call("array_join", array, *words)


def _reversed(lists: Lists) -> Lists:
    last = lists.begins + lists.lengths - 1
    return lists.chosen(last[lists.parents] - lists.places)


def _reverse_spark(call: Call, arguments: Sequence[str]) -> str:
    return f"reverse({arguments[0]})"


for _name, _about, _change in (
    ("array_reverse", "Turn the order of elements round.", _reversed),
    ("array_distinct", "Keep the first of equal elements.", _distinct),
    ("array_compact", "Leave NULLs out.", compact),
    (
        "array_sort",
        "Sort elements, NULLs last, or by a comparison.",
        lambda lists: _sorted(lists, SortKey("", nulls_first=False)),
    ),
):
    NESTED.infallible.add(
        f"{_name}(ARRAY{' [, (x, y) -> INT]' if _name == 'array_sort' else ''}) -> ARRAY",
        _about,
        _array_sort if _name == "array_sort" else takes(ARRAY),
        _of_list(_change),
        without_nulls if _name == "array_compact" else typed_as_first,
        _reverse_spark if _name == "array_reverse" else None,
    )


@NESTED.infallible.kernel(
    "sort_array(ARRAY [, ascending BOOLEAN]) -> ARRAY",
    "Sort elements; NULLs are first ascending, last descending.",
    _sort_array,
    typed_as_first,
)
def _sort_array_kernel(call: Call, values: Values, rows: int) -> Value:
    ascending = values[1].as_py()
    key = SortKey("", descending=not ascending, nulls_first=ascending)
    return _sorted(Lists.of(values[0], rows), key).array(call.type)


@NESTED.kernel(
    "slice(ARRAY, start from 1, length) -> ARRAY",
    "Keep so many elements from a place on, counted from the end if negative.",
    takes(ARRAY, integer, integer),
    typed_as_first,
)
def _slice_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    null = null_rows(values, rows)
    start, length = (whole_numbers(each, rows, 1) for each in values[1:])
    refuse(call, values, pa.array(start == 0), "counts from 1, not from 0", rows)
    refuse(call, values, pa.array(length < 0), "has a negative length", rows)
    begin = np.where(start < 0, lists.lengths + start, start - 1)
    end = np.where(begin < 0, 0, begin + length)
    kept = (lists.places >= begin[lists.parents]) & (lists.places < end[lists.parents])
    return lists.chosen(np.flatnonzero(kept)).array(call.type, null)


@NESTED.infallible.kernel(
    "array_concat(ARRAY, …) -> ARRAY",
    "Put arrays one after the other.",
    takes(ARRAY, rest=ARRAY, alike=True),
    typed_as_joined,
    lambda call, arguments: f"concat({', '.join(arguments)})",
)
def _concat_kernel(call: Call, values: Values, rows: int) -> Value:
    """Put arrays one after the other."""
    kind = call.type.arrow.value_type
    parts = [Lists.of(value, rows) for value in values]
    joined = pa.concat_arrays([part.values.cast(kind) for part in parts])
    parents = np.concatenate([part.parents for part in parts])
    order = argsort([parents], len(parents))
    lengths = np.sum([part.lengths for part in parts], axis=0)
    result = Lists(lengths, joined.take(pa.array(order)))
    return result.array(call.type, null_rows(values, rows))


@NESTED.infallible.kernel(
    "flatten(ARRAY<ARRAY<x>>) -> ARRAY<x>",
    "Put the arrays in an array together; NULL where one of them is.",
    _flatten,
    _flatten_type,
)
def _flatten_kernel(call: Call, values: Values, rows: int) -> Value:
    """Put the arrays in an array together; NULL where one of them is."""
    outer = Lists.of(values[0], rows)
    inner = Lists.of(outer.values, len(outer.values))
    lengths = np.bincount(outer.parents, inner.lengths, rows).astype(np.int64)
    null = None
    if inner.null is not None:
        null = np.zeros(rows, bool)
        null[outer.parents[inner.null]] = True
    return Lists(lengths, inner.values, outer.null).array(call.type, null)


@NESTED.infallible.kernel(
    "array_join(ARRAY, separator [, for NULL]) -> STRING",
    "Join elements as text; NULLs are left out.",
    _array_join,
    result(STRING),
)
def _array_join_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    if len(values) == 3:
        other = as_array(values[2], rows).take(pa.array(lists.parents))
        lists = replace(lists, values=pc.coalesce(lists.values, other))
    some = compact(lists)
    joined = pc.binary_join(
        Lists(some.lengths, some.values).array(array_type(STRING, True)), as_array(values[1], rows)
    )
    null = null_rows(values, rows)
    return pc.if_else(pa.array(null), None, joined)


def _remove(call: Written) -> Expression:
    """Resolve array_remove; in flink NULL is an element like others."""
    array, value = with_element(call)
    removed = typed_call("array_remove", array, value)
    if call.dialect is not FLINK:
        return removed
    known = cast_to(typed_call("array_compact", array), removed.type)
    return case_of([is_null(value)], [known, removed], call.dialect)


@NESTED.infallible.kernel(
    "array_remove(ARRAY, x) -> ARRAY",
    "Leave elements out that equal x; in flink NULL equals NULL.",
    _remove,
    typed_as_first,
)
def _remove_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    each = as_array(values[1], rows).take(pa.array(lists.parents))
    kept = np.flatnonzero(~equal(lists.values, each))
    return lists.chosen(kept).array(call.type, null_rows(values, rows))


def _added(call: Written) -> Expression:
    """Resolve array_append(array, x) and array_prepend(array, x)."""
    array, value = with_element(call)
    single = typed_call("array", value)
    parts = (array, single) if call.name == "array_append" else (single, array)
    return typed_call("array_concat", *coerced(parts, call.dialect, f"arguments of {call.name}"))


NESTED.alias("array_append(ARRAY<x>, x) -> ARRAY<x>", "Put a value after the elements.", _added)
NESTED.alias("array_prepend(ARRAY<x>, x) -> ARRAY<x>", "Put a value before the elements.", _added)
