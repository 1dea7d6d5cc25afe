"""Functions that read elements, look for them and count them."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.keys import argsort, ranks
from pkray.errors import QueryError, UnsupportedError
from pkray.relational.functions import coercion, signatures
from pkray.relational.functions.comparison import equal_values
from pkray.relational.functions.conditional import case_of, is_null
from pkray.relational.functions.function import (
    Kernel,
    Value,
    Written,
    resolve,
    typed_call,
    wrong_argument,
)
from pkray.relational.functions.nested.arguments import (
    ARRAY,
    ARRAY_OR_MAP,
    MAP,
    NESTED,
    SPARK,
    Values,
    element_of,
    element_place,
    key_of,
    map_type,
    takes_element,
    typed_as_element,
    value_of,
    with_element,
)
from pkray.relational.functions.nested.lists import Lists, whole_numbers
from pkray.relational.functions.nested.rows import field
from pkray.relational.functions.values import as_array, null_rows, refuse
from pkray.relational.plan.expressions import Call, Expression, Lambda, SortKey
from pkray.schema.types import STRINGS, DataType


def _element_at(call: Written) -> Expression:
    """Resolve element_at(array, place from 1), element_at(map, key) and their safe kin."""
    value, _ = call.exactly(2)
    ARRAY_OR_MAP.taken(call, 0)
    if value.type.root == "MAP":
        return typed_call("map_value", value, _key_argument(call))
    return typed_call(call.name, value, element_place.taken(call, 1))


def _bracket(call: Written) -> Expression:
    """Resolve value[…] and value.name."""
    value, key = call.exactly(2)
    for place, each in enumerate(call.arguments):
        if isinstance(each, Lambda):
            raise wrong_argument("element_of", place, each)
    if key.type.is_nested and value.type.root == "ARRAY":
        raise wrong_argument("element_of", 1, key, "an integer")
    if value.type.root == "ROW":
        return field(call._replace(name="field"))
    if value.type.root == "MAP":
        return typed_call("map_value", value, coercion.cast_to(key, key_of(value)))
    if value.type.root == "ARRAY":
        name = "array_item" if call.dialect is SPARK else "try_element_at"
        if key.type.root in STRINGS and element_of(value).root == "ROW":
            raise UnsupportedError(
                "a field of an array's rows is not taken at once: write transform(array, x -> x.f)"
            )
        return typed_call(name, value, element_place.taken(call._replace(name="[]"), 1))
    raise QueryError(
        f"{value.type} has no elements and no fields: [] and . are of ARRAY, MAP and ROW",
        type=str(value.type),
    )


def _at(base: int, safe: bool, backwards: bool = True) -> Kernel:
    """Make a kernel that reads elements.

    Args:
        base: the place of the first element.
        backwards: whether negative places count from the end, where the first is 1.
        safe: whether a place without an element gives NULL.
    """

    def kernel(call: Call, values: Values, rows: int) -> Value:
        lists = Lists.of(values[0], rows)
        null = null_rows(values, rows)
        said = whole_numbers(values[1], rows, base)
        place = np.where((said < 0) & (base == 1) & backwards, lists.lengths + said, said - base)
        outside = (place < 0) | (place >= lists.lengths)
        if base == 1:
            refuse(call, values, pa.array(said == 0), "counts from 1, not from 0", rows)
        if not safe:
            problem = f"has no such element: places are {base} to {'n' if base else 'n - 1'}"
            refuse(call, values, pa.array(outside), problem, rows)
        index = np.where(outside, 0, lists.begins + place)
        return lists.values.take(pa.array(index, mask=outside | null))

    return kernel


def equal(left: pa.Array, right: pa.Array) -> np.ndarray:
    """Whether values of two columns are equal, NULL being equal to nothing."""
    right = right.cast(left.type) if pa.types.is_nested(left.type) else right
    return np.asarray(pc.fill_null(equal_values(left, right), False))


def _first_match(lists: Lists, wanted: Value, rows: int) -> np.ndarray:
    """Give the number of the first element equal to a value, -1 where none is."""
    each = as_array(wanted, rows).take(pa.array(lists.parents))
    hits = np.flatnonzero(equal(lists.values, each))
    found = np.full(rows, -1)
    found[lists.parents[hits[::-1]]] = hits[::-1]
    return found


def _map_value_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    found = _first_match(lists, values[1], rows)
    assert lists.items is not None
    return lists.items.take(pa.array(found, mask=found < 0))


NESTED.add(
    "element_at(ARRAY, place from 1) | (MAP, key) -> element",
    "Give an element, from the end if the place is negative; outside of an array it fails.",
    _element_at,
    _at(1, safe=False),
    typed_as_element(),
)
NESTED.add(
    "try_element_at(ARRAY, place from 1) | (MAP, key) -> element",
    "Give an element, or NULL where there is none.",
    _element_at,
    _at(1, safe=True),
    typed_as_element(nullable=True),
)
NESTED.add_inner(
    "elt_item",
    "Give an element, counted from 1 and never from the end.",
    _at(1, safe=False, backwards=False),
    typed_as_element(),
    lambda call, arguments: f"{arguments[0]}[{arguments[1]} - 1]",
)
NESTED.add_inner(
    "array_item",
    "Give an element, counted from 0.",
    _at(0, safe=False),
    typed_as_element(),
    lambda call, arguments: f"{arguments[0]}[{arguments[1]}]",
)
NESTED.infallible.add(
    "get(ARRAY, place from 0) -> element",
    "Give an element, or NULL where there is none.",
    signatures.takes(ARRAY, signatures.integer),
    _at(0, safe=True),
    typed_as_element(nullable=True),
)
NESTED.infallible.add_inner(
    "map_value",
    "Give the value beside a key, or NULL.",
    _map_value_kernel,
    lambda arguments: value_of(arguments[0]).with_nullable(True),
    lambda call, arguments: f"element_at({arguments[0]}, {arguments[1]})",
)
NESTED.alias(
    "value[place | key], row.name", "Give an element or a field.", _bracket, name="element_of"
)


def _has_key(call: Written) -> Expression:
    value, _ = call.exactly(2)
    MAP.taken(call, 0)
    return typed_call(call.name, value, _key_argument(call))


def _key_argument(call: Written) -> Expression:
    """Take a key of the map before it."""
    value, key = call.arguments
    made = Call(map_type(key.type, value_of(value), True), "map", (key, key))
    coercion.check_texts(call.name, value, made)
    return coercion.cast_to(key, key_of(value))


def _extreme(greatest: bool) -> Kernel:
    def kernel(call: Call, values: Values, rows: int) -> Value:
        lists = Lists.of(values[0], rows)
        some = lists.chosen(np.flatnonzero(np.asarray(lists.values.is_valid())))
        order = argsort(
            [some.parents, *ranks(some.values, SortKey("", descending=greatest))], len(some.values)
        )
        index = np.where(some.lengths > 0, some.begins, 0)
        rows_found = order[index] if len(order) else index
        return some.values.take(pa.array(rows_found, mask=some.lengths == 0))

    return kernel


def _contains_type(arguments: tuple[Expression, ...]) -> DataType:
    return coercion.BOOLEAN.with_nullable(
        coercion.any_nullable(arguments) or element_of(arguments[0]).nullable
    )


@NESTED.infallible.kernel(
    "size(ARRAY | MAP) -> INT",
    "Count elements.",
    signatures.takes(ARRAY_OR_MAP),
    signatures.result(coercion.INT),
    synonyms=("cardinality", "array_size"),
)
def _size_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    return pa.array(lists.lengths.astype(np.int32), mask=lists.null)


def _contains(call: Written) -> Expression:
    """Resolve array_contains; in flink NULL is an element like others."""
    array, value = with_element(call)
    found = typed_call("array_contains", array, value)
    if call.dialect is SPARK:
        return found
    elements, known = (
        typed_call("size", each) for each in (array, typed_call("array_compact", array))
    )
    has_null = resolve("less", (known, elements), call.dialect)
    among_nulls = resolve("and", (is_null(value), has_null), call.dialect)
    none = coercion.untyped_null()
    return case_of([is_null(array), is_null(found)], [none, among_nulls, found], call.dialect)


@NESTED.infallible.kernel(
    "array_contains(ARRAY, x) -> BOOLEAN",
    "Whether an element equals x; NULL where none does and one is NULL, in flink FALSE; there "
    "NULL equals NULL.",
    _contains,
    _contains_type,
)
def _contains_kernel(call: Call, values: Values, rows: int) -> Value:
    """Find a value; not finding it among NULLs is NULL."""
    lists = Lists.of(values[0], rows)
    found = _first_match(lists, values[1], rows) >= 0
    unknown = np.zeros(rows, bool)
    unknown[lists.parents[np.asarray(lists.values.is_null())]] = True
    null = null_rows(values, rows)
    mask = unknown & ~found
    return pa.array(found, mask=mask | null)


@NESTED.infallible.kernel(
    "array_position(ARRAY, x) -> BIGINT",
    "Give the place from 1 of the first element that equals x; 0 where none does.",
    takes_element,
    signatures.result(coercion.BIGINT),
)
def _position_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    found = _first_match(lists, values[1], rows)
    place = np.where(found >= 0, found - lists.begins + 1, 0)
    return pa.array(place, mask=null_rows(values, rows))


@NESTED.infallible.kernel(
    "map_contains_key(MAP, key) -> BOOLEAN",
    "Whether a map has a key.",
    _has_key,
    signatures.result(coercion.BOOLEAN),
)
def _has_key_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    found = _first_match(lists, values[1], rows) >= 0
    return pa.array(found, mask=null_rows(values, rows))


for _name, _greatest in (("array_min", False), ("array_max", True)):
    NESTED.infallible.add(
        f"{_name}(ARRAY<x>) -> x",
        f"Give the {'greatest' if _greatest else 'least'} element; NULLs are left out.",
        signatures.takes(ARRAY),
        _extreme(_greatest),
        typed_as_element(nullable=True),
    )
