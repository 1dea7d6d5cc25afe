"""Functions of arrays, maps and rows.

A NULL argument gives NULL, unless said otherwise. Elements are counted from 1 by functions, and by
``[]`` from 0 in the spark dialect, from 1 in flink. Lambdas are computed over all elements of a
batch at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError, QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.coercion import (
    BIGINT,
    BOOLEAN,
    INT,
    STRING,
    any_nullable,
    cast_to,
    coerced,
    is_untyped_null,
    wider,
)
from pkray.relational.functions.comparison import equal_values
from pkray.relational.functions.function import (
    NO_SPARK,
    Family,
    Kernel,
    Resolver,
    Typing,
    Value,
    typed_call,
)
from pkray.relational.functions.nested.lists import Lists, null_rows
from pkray.relational.functions.signatures import (
    Parameter,
    anything,
    check_count,
    integer,
    of_types,
    parameter,
    result,
    takes,
    text,
    text_literal,
    wrong_argument,
)
from pkray.relational.functions.values import as_array, refuse
from pkray.relational.local.keys import argsort, codes, ranks
from pkray.relational.plan.expressions import (
    Call,
    ColumnRef,
    Expression,
    Lambda,
    Literal,
    SortKey,
)
from pkray.schema.types import INTEGERS, STRINGS, DataField, DataType

NESTED = Family("nested")
Values: TypeAlias = Sequence[Value]
SPARK, FLINK = Dialect.SPARK, Dialect.FLINK
NAMED = "named"
"""What a field of STRUCT(…) is given as: ``named(name, value)``; it never stands in a plan."""


# --- Types ----------------------------------------------------------------------------------------


def _element(argument: Expression) -> DataType:
    assert argument.type.element is not None
    return argument.type.element


def _array_of(element: DataType, nullable: bool) -> DataType:
    return DataType("ARRAY", nullable, element=element)


def _map_of(key: DataType, value: DataType, nullable: bool) -> DataType:
    return DataType("MAP", nullable, key=key.with_nullable(False), value=value)


def _key(argument: Expression) -> DataType:
    assert argument.type.key is not None
    return argument.type.key.with_nullable(False)


def _value(argument: Expression) -> DataType:
    assert argument.type.value is not None
    return argument.type.value


def _as_first(arguments: tuple[Expression, ...]) -> DataType:
    """Give the type of the first argument."""
    return arguments[0].type.with_nullable(any_nullable(arguments))


def _without_nulls(arguments: tuple[Expression, ...]) -> DataType:
    return _array_of(_element(arguments[0]).with_nullable(False), arguments[0].type.nullable)


def _element_of(nullable: bool = False) -> Typing:
    """Give the type of the first argument's elements."""

    def typing(arguments: tuple[Expression, ...]) -> DataType:
        kind = _element(arguments[0])
        return kind.with_nullable(nullable or kind.nullable or any_nullable(arguments))

    return typing


# --- Arguments ------------------------------------------------------------------------------------


ARRAY = of_types("an ARRAY", "ARRAY")
MAP = of_types("a MAP", "MAP")
ARRAY_OR_MAP = of_types("an ARRAY or a MAP", "ARRAY", "MAP")
ROW = of_types("a ROW", "ROW")
INTEGER = of_types("an integer", *INTEGERS, null=True)


@parameter("an integer")
def _place(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take a place of an element."""
    taken = INTEGER.cast(argument, dialect)
    return None if taken is None else cast_to(taken, INT)


def _takes_element(name: str) -> Resolver:
    """Resolve a function of an array and a value that its elements are compared with."""

    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 2, 2)
        ARRAY.taken(name, arguments, 0, dialect)
        array, value = _with_element(arguments[0], arguments[1], dialect, name)
        return typed_call(name, array, value)

    return resolve


def _with_element(
    array: Expression, value: Expression, dialect: Dialect, name: str
) -> tuple[Expression, Expression]:
    """Bring an array's elements and a value to one type."""
    element = _element(array)
    kind = element if is_untyped_null(value) else wider(element, value.type, dialect)
    if kind is None:
        raise QueryError(
            f"{name} compares elements of {element} with {value.type}; cast one of them",
            function=name,
        )
    if kind.with_nullable(True) != element.with_nullable(True):
        array = cast_to(array, _array_of(kind.with_nullable(element.nullable), True))
    return array, cast_to(value, kind)


# --- Rows -----------------------------------------------------------------------------------------


def _struct(name: str, flink_names: bool = False) -> Resolver:
    """Resolve struct(a, b AS c), row(a, b): fields are called as columns, else col1, col2 …."""

    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        parts: list[Expression] = []
        for place, each in enumerate(arguments):
            if isinstance(each, Call) and each.function == NAMED:
                parts += each.arguments
                continue
            plain = f"EXPR${place}" if dialect is FLINK and flink_names else f"col{place + 1}"
            parts += [text_literal(plain), each]
        return _named_struct(tuple(parts), dialect)

    return resolve


def _named_struct(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    name = "named_struct"
    if not arguments or len(arguments) % 2:
        raise QueryError(f"{name} takes names and values in pairs", function=name)
    for each in arguments[::2]:
        if not isinstance(each, Literal) or not isinstance(each.value, str):
            raise QueryError(f"the names of {name} must be constant text", function=name)
    return typed_call(name, *arguments)


def _type_of_struct(arguments: tuple[Expression, ...]) -> DataType:
    pairs = zip(arguments[::2], arguments[1::2], strict=True)
    fields = [
        DataField(place, str(getattr(name, "value", "")), value.type)
        for place, (name, value) in enumerate(pairs)
    ]
    return DataType("ROW", False, fields=tuple(fields))


def _struct_kernel(call: Call, values: Values, rows: int) -> Value:
    kind = call.type.arrow
    parts = [as_array(value, rows) for value in values[1::2]]
    return pa.StructArray.from_arrays(parts, fields=[kind.field(i) for i in range(len(parts))])


def _type_of_field(arguments: tuple[Expression, ...]) -> DataType:
    row, name = arguments
    found = [each.type for each in row.type.fields or () if each.name == getattr(name, "value", "")]
    return found[0].with_nullable(found[0].nullable or row.type.nullable)


def _field(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    """Resolve field(row, 'name'); the spark dialect finds names whatever their case."""
    check_count("field", arguments, 2, 2)
    row, said = arguments
    ROW.taken("field", arguments, 0, dialect)
    if not isinstance(said, Literal) or not isinstance(said.value, str):
        raise QueryError("a field of a ROW is named by constant text", function="field")
    names = [each.name for each in row.type.fields or ()]
    found = [name for name in names if name == said.value]
    if not found and dialect is SPARK:
        found = [name for name in names if name.lower() == said.value.lower()]
    if not found:
        raise QueryError(
            f"the ROW has no field {said.value!r}; it has {', '.join(names)}", function="field"
        )
    if len(found) > 1:
        raise QueryError(f"{said.value!r} is ambiguous: {', '.join(found)}", function="field")
    return typed_call("field", row, text_literal(found[0]))


def _field_kernel(call: Call, values: Values, rows: int) -> Value:
    name = values[1].as_py() if isinstance(values[1], pa.Scalar) else values[1][0].as_py()
    names = [each.name for each in call.arguments[0].type.fields or ()]
    # Takes the row's own NULLs along.
    return pc.struct_field(as_array(values[0], rows), [names.index(name)])


def _field_spark(call: Call, arguments: Sequence[str]) -> str:
    name = call.arguments[1]
    assert isinstance(name, Literal)
    return f"{arguments[0]}.`{str(name.value).replace('`', '``')}`"


NESTED.add(
    "field",
    "row.name -> type of the field",
    "Give a field of a row.",
    _field,
    _field_kernel,
    _type_of_field,
    _field_spark,
    fallible=False,
)
NESTED.add(
    "named_struct",
    "named_struct('name', value, …) -> ROW",
    "Make a row.",
    _named_struct,
    _struct_kernel,
    _type_of_struct,
    fallible=False,
)


NESTED.alias("struct", "struct(value [AS name], …) -> ROW", "Make a row.", _struct("struct"))
NESTED.alias("row", "row(value, …) -> ROW", "Make a row.", _struct("row", flink_names=True))


# --- Making arrays and maps -----------------------------------------------------------------------


def _array(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    return typed_call("array", *coerced(arguments, dialect, "elements of an array"))


def _type_of_array(arguments: tuple[Expression, ...]) -> DataType:
    if not arguments:
        return _array_of(STRING, False)
    return _array_of(arguments[0].type.with_nullable(any_nullable(arguments)), False)


def _woven(columns: list[pa.Array], rows: int) -> pa.Array:
    """Give the values of the first row, of the second, ….

    Args:
        columns: of one type, each of `rows` values.
    """
    order = np.arange(rows)[:, None] + rows * np.arange(len(columns))[None, :]
    return pa.concat_arrays(columns).take(pa.array(order.ravel()))


def _array_kernel(call: Call, values: Values, rows: int) -> Value:
    kind = call.type.arrow.value_type
    columns = [as_array(value, rows).cast(kind) for value in values]
    woven = _woven(columns, rows) if columns else pa.array([], kind)
    return Lists(np.full(rows, len(columns)), woven).array(call.type)


def _map(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    if len(arguments) % 2:
        raise QueryError("map takes keys and values in pairs", function="map")
    keys = coerced(arguments[::2], dialect, "keys of a map")
    values = coerced(arguments[1::2], dialect, "values of a map")
    pairs = zip(keys, values, strict=True)
    return typed_call("map", *(each for pair in pairs for each in pair))


def _type_of_map(arguments: tuple[Expression, ...]) -> DataType:
    if not arguments:
        return _map_of(STRING, STRING, False)
    nullable = any_nullable(arguments[1::2])
    return _map_of(arguments[0].type, arguments[1].type.with_nullable(nullable), False)


def _map_kernel(call: Call, values: Values, rows: int) -> Value:
    kind = call.type.arrow
    keys = [as_array(value, rows).cast(kind.key_type) for value in values[::2]]
    items = [as_array(value, rows).cast(kind.item_type) for value in values[1::2]]
    if not keys:
        empty = pa.array([], kind.key_type), pa.array([], kind.item_type)
        return Lists(np.zeros(rows, np.int64), empty[0], None, empty[1]).array(call.type)
    lists = Lists(np.full(rows, len(keys)), _woven(keys, rows), None, _woven(items, rows))
    return _checked_map(call, lists)


def _checked_map(call: Call, lists: Lists, null: np.ndarray | None = None) -> pa.Array:
    """Refuse NULL keys, and keys that a row has twice."""
    if lists.values.null_count:
        row = int(lists.parents[np.asarray(lists.values.is_null())][0])
        raise EvaluationError(f"{call.function}: a key is NULL", function=call.function, row=row)
    numbers = codes([pa.array(lists.parents), lists.values], len(lists.values))
    if numbers.count < len(lists.values):
        again = int(np.setdiff1d(np.arange(len(lists.values)), numbers.first_rows())[0])
        raise EvaluationError(
            f"{call.function}: the key {lists.values[again].as_py()!r} is there twice",
            function=call.function,
            row=int(lists.parents[again]),
        )
    return lists.array(call.type, null)


def _map_from_arrays_kernel(call: Call, values: Values, rows: int) -> Value:
    keys, items = (Lists.of(value, rows) for value in values)
    null = null_rows(list(values), rows)
    known = np.ones(rows, bool) if null is None else ~null
    wrong = pa.array((keys.lengths != items.lengths) & known)
    refuse(call, values, wrong, "has keys and values of different number", rows)
    kept = np.flatnonzero(known[keys.parents])
    others = np.flatnonzero(known[items.parents])
    pairs = replace(keys.chosen(kept), items=items.chosen(others).values, null=None)
    return _checked_map(call, pairs, null)


def _map_entries_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    row = call.type.arrow.value_type
    entries = pa.StructArray.from_arrays(
        [lists.values, lists.items], fields=[row.field(0), row.field(1)]
    )
    return Lists(lists.lengths, entries, lists.null).array(call.type)


def _type_of_entries(arguments: tuple[Expression, ...]) -> DataType:
    fields = (
        DataField(0, "key", _key(arguments[0])),
        DataField(1, "value", _value(arguments[0])),
    )
    return _array_of(DataType("ROW", False, fields=fields), arguments[0].type.nullable)


def _map_from_entries_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    keys, items = lists.values.flatten()
    return _checked_map(call, Lists(lists.lengths, keys, lists.null, items))


def _type_from_entries(arguments: tuple[Expression, ...]) -> DataType:
    fields = _element(arguments[0]).fields or ()
    return _map_of(fields[0].type, fields[1].type, arguments[0].type.nullable)


def _map_from_entries(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    name = "map_from_entries"
    check_count(name, arguments, 1, 1)
    ARRAY.taken(name, arguments, 0, dialect)
    if _element(arguments[0]).root != "ROW" or len(_element(arguments[0]).fields or ()) != 2:
        raise wrong_argument(name, 0, arguments[0], "an ARRAY of ROWs of two fields")
    return typed_call(name, arguments[0])


def _map_parts(keys: bool) -> Kernel:
    def kernel(call: Call, values: Values, rows: int) -> Value:
        lists = Lists.of(values[0], rows)
        part = lists.values if keys else lists.items
        assert part is not None
        return Lists(lists.lengths, part, lists.null).array(call.type)

    return kernel


NESTED.add(
    "array",
    "array(x, …) -> ARRAY<x>",
    "Make an array.",
    _array,
    _array_kernel,
    _type_of_array,
    fallible=False,
)
NESTED.add(
    "map",
    "map(key, value, …) -> MAP",
    "Make a map; a key twice fails.",
    _map,
    _map_kernel,
    _type_of_map,
)
NESTED.add(
    "map_from_arrays",
    "map_from_arrays(ARRAY keys, ARRAY values) -> MAP",
    "Make a map of two arrays.",
    takes("map_from_arrays", ARRAY, ARRAY),
    _map_from_arrays_kernel,
    lambda arguments: _map_of(
        _element(arguments[0]), _element(arguments[1]), any_nullable(arguments)
    ),
)
NESTED.add(
    "map_from_entries",
    "map_from_entries(ARRAY<ROW<key, value>>) -> MAP",
    "Make a map of pairs.",
    _map_from_entries,
    _map_from_entries_kernel,
    _type_from_entries,
)
NESTED.add(
    "map_entries",
    "map_entries(MAP) -> ARRAY<ROW<key, value>>",
    "Give a map's pairs.",
    takes("map_entries", MAP),
    _map_entries_kernel,
    _type_of_entries,
    fallible=False,
)
NESTED.add(
    "map_keys",
    "map_keys(MAP) -> ARRAY",
    "Give a map's keys.",
    takes("map_keys", MAP),
    _map_parts(keys=True),
    lambda arguments: _array_of(_key(arguments[0]), arguments[0].type.nullable),
    fallible=False,
)
NESTED.add(
    "map_values",
    "map_values(MAP) -> ARRAY",
    "Give a map's values.",
    takes("map_values", MAP),
    _map_parts(keys=False),
    lambda arguments: _array_of(_value(arguments[0]), arguments[0].type.nullable),
    fallible=False,
)


# --- Reading elements -----------------------------------------------------------------------------


def _element_at(name: str) -> Resolver:
    """Resolve element_at(array, place from 1), element_at(map, key) and their safe kin."""

    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 2, 2)
        ARRAY_OR_MAP.taken(name, arguments, 0, dialect)
        if arguments[0].type.root == "MAP":
            return typed_call("map_value", arguments[0], cast_to(arguments[1], _key(arguments[0])))
        return typed_call(name, arguments[0], _place.taken(name, arguments, 1, dialect))

    return resolve


def _bracket(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    """Resolve value[…] and value.name."""
    value, key = arguments
    if value.type.root == "ROW":
        return _field((value, key), dialect)
    if value.type.root == "MAP":
        return typed_call("map_value", value, cast_to(key, _key(value)))
    if value.type.root == "ARRAY":
        name = "array_item" if dialect is SPARK else "element_at"
        if key.type.root in STRINGS and _element(value).root == "ROW":
            raise UnsupportedError(
                "a field of an array's rows is not taken at once: write transform(array, x -> x.f)"
            )
        return typed_call(name, value, _place.taken("[]", arguments, 1, dialect))
    raise QueryError(
        f"{value.type} has no elements and no fields: [] and . are of ARRAY, MAP and ROW",
        type=str(value.type),
    )


def _at(base: int, safe: bool) -> Kernel:
    """Make a kernel that reads elements.

    Args:
        base: the place of the first element.
        safe: whether a place without an element gives NULL.
    """

    def kernel(call: Call, values: Values, rows: int) -> Value:
        lists = Lists.of(values[0], rows)
        null = null_rows(list(values), rows)
        said = np.asarray(as_array(values[1], rows).fill_null(base)).astype(np.int64)
        place = np.where((said < 0) & (base == 1), lists.lengths + said, said - base)
        outside = (place < 0) | (place >= lists.lengths)
        known = np.ones(rows, bool) if null is None else ~null
        if base == 1:
            refuse(call, values, pa.array((said == 0) & known), "counts from 1, not from 0", rows)
        if not safe:
            problem = f"has no such element: places are {base} to {'n' if base else 'n - 1'}"
            refuse(call, values, pa.array(outside & known), problem, rows)
        index = np.where(outside, 0, lists.begins + place)
        return lists.values.take(pa.array(index, mask=outside | ~known))

    return kernel


def _equal(left: pa.Array, right: pa.Array) -> np.ndarray:
    """Whether values of two columns are equal, NULL being equal to nothing."""
    if pa.types.is_nested(left.type):
        numbers = codes([pa.concat_arrays([left, right.cast(left.type)])], 2 * len(left)).of_row
        same = numbers[: len(left)] == numbers[len(left) :]
        return same & np.asarray(left.is_valid())
    return np.asarray(pc.fill_null(equal_values(left, right), False))


def _first_match(lists: Lists, wanted: Value, rows: int) -> np.ndarray:
    """Give the number of the first element equal to a value, -1 where none is."""
    each = as_array(wanted, rows).take(pa.array(lists.parents))
    hits = np.flatnonzero(_equal(lists.values, each))
    found = np.full(rows, -1)
    found[lists.parents[hits[::-1]]] = hits[::-1]
    return found


def _map_value_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    found = _first_match(lists, values[1], rows)
    assert lists.items is not None
    return lists.items.take(pa.array(found, mask=found < 0))


NESTED.add(
    "element_at",
    "element_at(ARRAY, place from 1) | (MAP, key) -> element",
    "Give an element, from the end if the place is negative; outside of an array it fails.",
    _element_at("element_at"),
    _at(1, safe=False),
    _element_of(),
)
NESTED.add(
    "try_element_at",
    "try_element_at(ARRAY, place from 1) | (MAP, key) -> element",
    "Give an element, or NULL where there is none.",
    _element_at("try_element_at"),
    _at(1, safe=True),
    _element_of(nullable=True),
)
NESTED.add(
    "array_item",
    "",
    "Give an element, counted from 0.",
    None,
    _at(0, safe=False),
    _element_of(),
    lambda call, arguments: f"{arguments[0]}[{arguments[1]}]",
)
NESTED.add(
    "get",
    "get(ARRAY, place from 0) -> element",
    "Give an element, or NULL where there is none.",
    takes("get", ARRAY, integer),
    _at(0, safe=True),
    _element_of(nullable=True),
    fallible=False,
)
NESTED.add(
    "map_value",
    "",
    "Give the value beside a key, or NULL.",
    None,
    _map_value_kernel,
    lambda arguments: _value(arguments[0]).with_nullable(True),
    lambda call, arguments: f"element_at({arguments[0]}, {arguments[1]})",
    fallible=False,
)
NESTED.alias("element_of", "value[place | key], row.name", "Give an element or a field.", _bracket)


# --- Asking ---------------------------------------------------------------------------------------


def _size_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    return pa.array(lists.lengths.astype(np.int32), mask=lists.null)


def _contains_kernel(call: Call, values: Values, rows: int) -> Value:
    """Find a value; not finding it among NULLs is NULL."""
    lists = Lists.of(values[0], rows)
    found = _first_match(lists, values[1], rows) >= 0
    unknown = np.zeros(rows, bool)
    unknown[lists.parents[np.asarray(lists.values.is_null())]] = True
    null = null_rows(list(values), rows)
    mask = unknown & ~found
    return pa.array(found, mask=mask if null is None else mask | null)


def _has_key_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    found = _first_match(lists, values[1], rows) >= 0
    return pa.array(found, mask=null_rows(list(values), rows))


def _position_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    found = _first_match(lists, values[1], rows)
    place = np.where(found >= 0, found - lists.begins + 1, 0)
    return pa.array(place, mask=null_rows(list(values), rows))


def _has_key(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    name = "map_contains_key"
    check_count(name, arguments, 2, 2)
    MAP.taken(name, arguments, 0, dialect)
    return typed_call(name, arguments[0], cast_to(arguments[1], _key(arguments[0])))


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
    return BOOLEAN.with_nullable(any_nullable(arguments) or _element(arguments[0]).nullable)


NESTED.add(
    "size",
    "size(ARRAY | MAP) -> INT",
    "Count elements.",
    takes("size", ARRAY_OR_MAP),
    _size_kernel,
    result(INT),
    synonyms=("cardinality", "array_size"),
    fallible=False,
)
NESTED.add(
    "array_contains",
    "array_contains(ARRAY, x) -> BOOLEAN",
    "Whether an element equals x; NULL where none does and one is NULL.",
    _takes_element("array_contains"),
    _contains_kernel,
    _contains_type,
    fallible=False,
)
NESTED.add(
    "array_position",
    "array_position(ARRAY, x) -> BIGINT",
    "Give the place from 1 of the first element that equals x; 0 where none does.",
    _takes_element("array_position"),
    _position_kernel,
    result(BIGINT),
    fallible=False,
)
NESTED.add(
    "map_contains_key",
    "map_contains_key(MAP, key) -> BOOLEAN",
    "Whether a map has a key.",
    _has_key,
    _has_key_kernel,
    result(BOOLEAN),
    fallible=False,
)
for _name, _greatest in (("array_min", False), ("array_max", True)):
    NESTED.add(
        _name,
        f"{_name}(ARRAY<x>) -> x",
        f"Give the {'greatest' if _greatest else 'least'} element; NULLs are left out.",
        takes(_name, ARRAY),
        _extreme(_greatest),
        _element_of(nullable=True),
        fallible=False,
    )


# --- Arrays of arrays -----------------------------------------------------------------------------


def _of_list(change: Callable[[Lists], Lists]) -> Kernel:
    """Make a kernel of what makes one array of another."""

    def kernel(call: Call, values: Values, rows: int) -> Value:
        return change(Lists.of(values[0], rows)).array(call.type)

    return kernel


def _one_zero(values: pa.Array) -> pa.Array:
    """Make -0.0 the 0.0 that it is equal to."""
    kind = values.type
    return pc.add(values, pa.scalar(0, kind)) if pa.types.is_floating(kind) else values


def _distinct(lists: Lists) -> Lists:
    lists = replace(lists, values=_one_zero(lists.values))
    numbers = codes([pa.array(lists.parents), lists.values], len(lists.values))
    return lists.chosen(np.sort(numbers.first_rows()))


def _compact(lists: Lists) -> Lists:
    return lists.chosen(np.flatnonzero(np.asarray(lists.values.is_valid())))


def _sorted(lists: Lists, key: SortKey) -> Lists:
    return lists.chosen(argsort([lists.parents, *ranks(lists.values, key)], len(lists.values)))


def _sort_array(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    name = "sort_array"
    check_count(name, arguments, 1, 2)
    ARRAY.taken(name, arguments, 0, dialect)
    ascending = arguments[1] if len(arguments) == 2 else Literal(BOOLEAN.with_nullable(False), True)
    if not isinstance(ascending, Literal) or not isinstance(ascending.value, bool):
        raise QueryError(f"argument 2 of {name} must be TRUE or FALSE", function=name)
    return typed_call(name, arguments[0], ascending)


def _sort_array_kernel(call: Call, values: Values, rows: int) -> Value:
    said = values[1].as_py() if isinstance(values[1], pa.Scalar) else bool(rows and values[1][0])
    key = SortKey("", descending=not said, nulls_first=bool(said))
    return _sorted(Lists.of(values[0], rows), key).array(call.type)


def _array_sort(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    """Resolve array_sort(array); flink puts NULLs first and can be told to sort downwards."""
    if dialect is FLINK and not any(isinstance(each, Lambda) for each in arguments):
        return _sort_array(arguments, dialect)
    if len(arguments) > 1:
        raise UnsupportedError(
            "array_sort with a comparison is not supported: write sort_array(array, FALSE) for "
            "descending order, or transform before",
            function="array_sort",
        )
    return takes("array_sort", ARRAY)(arguments, dialect)


def _slice_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    null = null_rows(list(values), rows)
    start, length = (
        np.asarray(as_array(each, rows).fill_null(1)).astype(np.int64) for each in values[1:]
    )
    known = np.ones(rows, bool) if null is None else ~null
    refuse(call, values, pa.array((start == 0) & known), "counts from 1, not from 0", rows)
    refuse(call, values, pa.array((length < 0) & known), "has a negative length", rows)
    begin = np.where(start < 0, lists.lengths + start, start - 1)
    end = np.where(begin < 0, 0, begin + length)
    kept = (lists.places >= begin[lists.parents]) & (lists.places < end[lists.parents])
    return lists.chosen(np.flatnonzero(kept)).array(call.type, null)


def _concat_kernel(call: Call, values: Values, rows: int) -> Value:
    """Put arrays one after the other."""
    kind = call.type.arrow.value_type
    parts = [Lists.of(value, rows) for value in values]
    joined = pa.concat_arrays([part.values.cast(kind) for part in parts])
    parents = np.concatenate([part.parents for part in parts])
    order = argsort([parents], len(parents))
    lengths = np.sum([part.lengths for part in parts], axis=0)
    result = Lists(lengths, joined.take(pa.array(order)))
    return result.array(call.type, null_rows(list(values), rows))


def _concat_type(arguments: tuple[Expression, ...]) -> DataType:
    element = _element(arguments[0])
    inner = any(_element(each).nullable for each in arguments)
    return _array_of(element.with_nullable(inner), any_nullable(arguments))


def _flatten(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("flatten", arguments, 1, 1)
    ARRAY.taken("flatten", arguments, 0, dialect)
    if _element(arguments[0]).root != "ARRAY":
        raise wrong_argument("flatten", 0, arguments[0], "an ARRAY of ARRAYs")
    return typed_call("flatten", arguments[0])


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


def _flatten_type(arguments: tuple[Expression, ...]) -> DataType:
    inner = _element(arguments[0])
    assert inner.element is not None
    return _array_of(inner.element, arguments[0].type.nullable or inner.nullable)


def _array_join(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    name = "array_join"
    check_count(name, arguments, 2, 3)
    ARRAY.taken(name, arguments, 0, dialect)
    array = arguments[0]
    if _element(array).root not in STRINGS:
        inner = STRING.with_nullable(_element(array).nullable)
        array = cast_to(array, _array_of(inner, True))
    words = [text.taken(name, arguments, place, dialect) for place in range(1, len(arguments))]
    return typed_call(name, array, *words)


def _array_join_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    if len(values) == 3:
        other = as_array(values[2], rows).take(pa.array(lists.parents))
        lists = replace(lists, values=pc.coalesce(lists.values, other))
    some = _compact(lists)
    joined = pc.binary_join(
        Lists(some.lengths, some.values).array(_array_of(STRING, True)), as_array(values[1], rows)
    )
    null = null_rows(list(values), rows)
    return joined if null is None else pc.if_else(pa.array(null), None, joined)


def _remove_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    each = as_array(values[1], rows).take(pa.array(lists.parents))
    kept = np.flatnonzero(~_equal(lists.values, each))
    return lists.chosen(kept).array(call.type, null_rows(list(values), rows))


def _repeat_kernel(call: Call, values: Values, rows: int) -> Value:
    counts = np.maximum(np.asarray(as_array(values[1], rows).fill_null(0)), 0).astype(np.int64)
    elements = as_array(values[0], rows).take(pa.array(np.repeat(np.arange(rows), counts)))
    return Lists(counts, elements).array(call.type, null_rows([values[1]], rows))


def _set_kernel(kept: Callable[[np.ndarray, np.ndarray], np.ndarray], both: bool) -> Kernel:
    """Make a kernel of a set operation.

    Args:
        kept: of whether an element is of the first array, and whether its value is in the second,
            whether it is kept.
        both: whether elements of the second array can be kept.
    """

    def kernel(call: Call, values: Values, rows: int) -> Value:
        kind = call.type.arrow.value_type
        parts = [Lists.of(value, rows) for value in values]
        joined = _one_zero(pa.concat_arrays([part.values.cast(kind) for part in parts]))
        parents = np.concatenate([part.parents for part in parts])
        numbers = codes([pa.array(parents), joined], len(parents))
        is_first = np.arange(len(parents)) < len(parts[0].values)
        in_second = np.zeros(numbers.count, bool)
        in_second[numbers.of_row[~is_first]] = True
        first = numbers.first_rows()
        chosen = np.sort(first[kept(is_first[first], in_second[numbers.of_row[first]])])
        order = chosen[argsort([parents[chosen]], len(chosen))]
        lengths = np.bincount(parents[order], minlength=rows)
        result = Lists(lengths, joined.take(pa.array(order)))
        return result.array(call.type, null_rows(list(values), rows))

    return kernel


def _overlap_kernel(call: Call, values: Values, rows: int) -> Value:
    """Whether two arrays share an element; NULL where they do not and one of them has a NULL."""
    left, right = (Lists.of(value, rows) for value in values)
    some, others = _compact(left), _compact(right)
    joined = _one_zero(pa.concat_arrays([some.values, others.values.cast(some.values.type)]))
    parents = np.concatenate([some.parents, others.parents])
    numbers = codes([pa.array(parents), joined], len(parents)).of_row
    shared = np.isin(numbers[: len(some.values)], numbers[len(some.values) :])
    found = np.zeros(rows, bool)
    found[some.parents[shared]] = True
    holes = (some.lengths < left.lengths) | (others.lengths < right.lengths)
    unknown = ~found & holes & (left.lengths > 0) & (right.lengths > 0)
    null = null_rows(list(values), rows)
    return pa.array(found, mask=unknown if null is None else unknown | null)


def _reversed(lists: Lists) -> Lists:
    last = lists.begins + lists.lengths - 1
    return lists.chosen(last[lists.parents] - lists.places)


def _reverse_spark(call: Call, arguments: Sequence[str]) -> str:
    return f"reverse({arguments[0]})"


for _name, _about, _change in (
    ("array_reverse", "Turn the order of elements round.", _reversed),
    ("array_distinct", "Keep the first of equal elements.", _distinct),
    ("array_compact", "Leave NULLs out.", _compact),
    (
        "array_sort",
        "Sort elements, NULLs last.",
        lambda lists: _sorted(lists, SortKey("", nulls_first=False)),
    ),
):
    NESTED.add(
        _name,
        f"{_name}(ARRAY) -> ARRAY",
        _about,
        _array_sort if _name == "array_sort" else takes(_name, ARRAY),
        _of_list(_change),
        _without_nulls if _name == "array_compact" else _as_first,
        _reverse_spark if _name == "array_reverse" else None,
        fallible=False,
    )
NESTED.add(
    "sort_array",
    "sort_array(ARRAY [, ascending BOOLEAN]) -> ARRAY",
    "Sort elements; NULLs are first ascending, last descending.",
    _sort_array,
    _sort_array_kernel,
    _as_first,
    fallible=False,
)
NESTED.add(
    "slice",
    "slice(ARRAY, start from 1, length) -> ARRAY",
    "Keep so many elements from a place on, counted from the end if negative.",
    takes("slice", ARRAY, integer, integer),
    _slice_kernel,
    _as_first,
)
NESTED.add(
    "array_concat",
    "array_concat(ARRAY, …) -> ARRAY",
    "Put arrays one after the other.",
    takes("array_concat", ARRAY, rest=ARRAY, alike=True),
    _concat_kernel,
    _concat_type,
    lambda call, arguments: f"concat({', '.join(arguments)})",
    fallible=False,
)
NESTED.add(
    "flatten",
    "flatten(ARRAY<ARRAY<x>>) -> ARRAY<x>",
    "Put the arrays in an array together; NULL where one of them is.",
    _flatten,
    _flatten_kernel,
    _flatten_type,
    fallible=False,
)
NESTED.add(
    "array_join",
    "array_join(ARRAY, separator [, for NULL]) -> STRING",
    "Join elements as text; NULLs are left out.",
    _array_join,
    _array_join_kernel,
    result(STRING),
    fallible=False,
)
NESTED.add(
    "array_remove",
    "array_remove(ARRAY, x) -> ARRAY",
    "Leave elements out that equal x.",
    _takes_element("array_remove"),
    _remove_kernel,
    _as_first,
    fallible=False,
)
NESTED.add(
    "array_repeat",
    "array_repeat(x, count) -> ARRAY<x>",
    "Make an array of one value.",
    takes("array_repeat", anything, _place),
    _repeat_kernel,
    lambda arguments: _array_of(arguments[0].type, arguments[1].type.nullable),
    fallible=False,
)
NESTED.add(
    "array_union",
    "array_union(ARRAY, ARRAY) -> ARRAY",
    "Give the elements of both, each once.",
    takes("array_union", ARRAY, ARRAY, alike=True),
    _set_kernel(lambda first, second: first | second, True),
    _concat_type,
    fallible=False,
)
NESTED.add(
    "array_intersect",
    "array_intersect(ARRAY, ARRAY) -> ARRAY",
    "Give the elements that are in both, each once.",
    takes("array_intersect", ARRAY, ARRAY, alike=True),
    _set_kernel(lambda first, second: first & second, False),
    _concat_type,
    fallible=False,
)
NESTED.add(
    "array_except",
    "array_except(ARRAY, ARRAY) -> ARRAY",
    "Give the elements that are not in the second, each once.",
    takes("array_except", ARRAY, ARRAY, alike=True),
    _set_kernel(lambda first, second: first & ~second, False),
    _concat_type,
    fallible=False,
)
NESTED.add(
    "arrays_overlap",
    "arrays_overlap(ARRAY, ARRAY) -> BOOLEAN",
    "Whether they share an element.",
    takes("arrays_overlap", ARRAY, ARRAY, alike=True),
    _overlap_kernel,
    lambda arguments: BOOLEAN.with_nullable(
        any_nullable(arguments) or any(_element(each).nullable for each in arguments)
    ),
    fallible=False,
)


def _added(name: str, last: bool) -> Resolver:
    """Resolve array_append(array, x) and array_prepend(array, x)."""

    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 2, 2)
        ARRAY.taken(name, arguments, 0, dialect)
        array, value = _with_element(arguments[0], arguments[1], dialect, name)
        single = typed_call("array", value)
        parts = (array, single) if last else (single, array)
        return typed_call("array_concat", *coerced(parts, dialect, f"arguments of {name}"))

    return resolve


def _zip(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    """Resolve arrays_zip: the fields are called as the columns, else by their places."""
    check_count("arrays_zip", arguments, 1, None)
    parts: list[Expression] = []
    for place, each in enumerate(arguments):
        ARRAY.taken("arrays_zip", arguments, place, dialect)
        name = each.name if isinstance(each, ColumnRef) else str(place)
        parts += [text_literal(name), each]
    return typed_call("arrays_zip", *parts)


def _zip_type(arguments: tuple[Expression, ...]) -> DataType:
    pairs = zip(arguments[::2], arguments[1::2], strict=True)
    fields = tuple(
        DataField(place, str(getattr(name, "value", "")), _element(array).with_nullable(True))
        for place, (name, array) in enumerate(pairs)
    )
    return _array_of(DataType("ROW", False, fields=fields), any_nullable(arguments))


def _zip_kernel(call: Call, values: Values, rows: int) -> Value:
    parts = [Lists.of(value, rows) for value in values[1::2]]
    null = null_rows(list(values), rows)
    both, columns = _side_by_side(parts, null)
    kind = call.type.arrow.value_type
    fields = [kind.field(place) for place in range(len(columns))]
    made = pa.StructArray.from_arrays(columns, fields=fields)
    return replace(both, values=made).array(call.type, null)


def _map_concat_kernel(call: Call, values: Values, rows: int) -> Value:
    kind = call.type.arrow
    null = null_rows(list(values), rows)
    parts = [Lists.of(value, rows) for value in values]
    known = np.ones(rows, bool) if null is None else ~null
    parts = [replace(part.chosen(np.flatnonzero(known[part.parents])), null=None) for part in parts]
    parents = np.concatenate([part.parents for part in parts])
    order = pa.array(argsort([parents], len(parents)))
    keys = pa.concat_arrays([part.values.cast(kind.key_type) for part in parts])
    items = pa.concat_arrays(
        [part.items.cast(kind.item_type) for part in parts if part.items is not None]
    )
    lengths = np.sum([part.lengths for part in parts], axis=0)
    return _checked_map(call, Lists(lengths, keys.take(order), None, items.take(order)), null)


def _str_to_map(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    name = "str_to_map"
    check_count(name, arguments, 1, 3)
    value = text.taken(name, arguments, 0, dialect)
    between = [text_literal(each) for each in (",", ":")]
    for place, each in enumerate(arguments[1:]):
        if not isinstance(each, Literal) or not isinstance(each.value, str) or not each.value:
            raise QueryError(f"the separators of {name} must be constant text", function=name)
        between[place] = text_literal(each.value)
    return typed_call(name, value, *between)


def _str_to_map_kernel(call: Call, values: Values, rows: int) -> Value:
    pairs, value = (str(getattr(each, "value", "")) for each in call.arguments[1:])
    lists = Lists.of(pc.split_pattern_regex(as_array(values[0], rows), pairs), rows)
    halves = Lists.of(pc.split_pattern_regex(lists.values, value, max_splits=1), len(lists.values))
    first = halves.values.take(pa.array(halves.begins))
    second = np.where(halves.lengths > 1, halves.begins + 1, 0)
    items = halves.values.take(pa.array(second, mask=halves.lengths < 2))
    return _checked_map(call, replace(lists, values=first, items=items))


for _name, _about, _last in (
    ("array_append", "Put a value after the elements.", True),
    ("array_prepend", "Put a value before the elements.", False),
):
    NESTED.alias(_name, f"{_name}(ARRAY<x>, x) -> ARRAY<x>", _about, _added(_name, _last))
NESTED.add(
    "arrays_zip",
    "arrays_zip(ARRAY, …) -> ARRAY<ROW>",
    "Make rows of the elements at one place; the shorter arrays' are NULL.",
    _zip,
    _zip_kernel,
    _zip_type,
    NO_SPARK,
    fallible=False,
)
NESTED.add(
    "map_concat",
    "map_concat(MAP, …) -> MAP",
    "Put maps together; a key twice fails.",
    takes("map_concat", MAP, rest=MAP, alike=True),
    _map_concat_kernel,
    lambda arguments: _map_of(
        _key(arguments[0]),
        _value(arguments[0]).with_nullable(any(_value(each).nullable for each in arguments)),
        any_nullable(arguments),
    ),
)
NESTED.add(
    "str_to_map",
    "str_to_map(text [, between pairs [, between key and value]]) -> MAP<STRING, STRING>",
    "Read pairs such as 'a:1,b:2'.",
    _str_to_map,
    _str_to_map_kernel,
    lambda arguments: _map_of(STRING, STRING, arguments[0].type.nullable),
)


MOST_ELEMENTS = 2**31 - 1
"""Most elements that the arrays of one batch have: Arrow counts them in 32 bits."""


def _sequence_kernel(call: Call, values: Values, rows: int) -> Value:
    null = null_rows(list(values), rows)
    known = np.ones(rows, bool) if null is None else ~null
    start, stop, *said = (
        np.asarray(as_array(each, rows).fill_null(0)).astype(np.int64) for each in values
    )
    step = said[0] if said else np.where(start <= stop, 1, -1)
    wrong = ((step == 0) & (start != stop)) | ((stop - start) * np.sign(step) < 0)
    refuse(call, values, pa.array(wrong & known), "never reaches its end", rows)
    counts = np.where(known, (stop - start) // np.where(step == 0, 1, step) + 1, 0)
    if counts.sum(dtype=np.float64) > MOST_ELEMENTS:
        raise EvaluationError(
            f"sequence makes {counts.sum(dtype=np.float64):.0f} elements at once; at most "
            f"{MOST_ELEMENTS} fit",
            function="sequence",
        )
    lists = Lists(counts, pa.nulls(0))
    numbers = start[lists.parents] + lists.places * step[lists.parents]
    made = pa.array(numbers).cast(call.type.arrow.value_type)
    return replace(lists, values=made).array(call.type, null)


NESTED.add(
    "sequence",
    "sequence(start, stop [, step]) -> ARRAY<integer>",
    "Count from start to stop, both included.",
    takes("sequence", INTEGER, INTEGER, INTEGER, least=2, alike=True),
    _sequence_kernel,
    lambda arguments: _array_of(arguments[0].type.with_nullable(False), any_nullable(arguments)),
)


# --- Lambdas --------------------------------------------------------------------------------------


def _with_lambda(name: str, *, boolean: bool = False, of: Parameter = ARRAY) -> Resolver:
    def resolve(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
        check_count(name, arguments, 2, 2)
        of.taken(name, arguments, 0, dialect)
        body = arguments[1]
        if not isinstance(body, Lambda):
            raise wrong_argument(name, 1, body, "a lambda such as x -> x + 1")
        if boolean and body.type.root != "BOOLEAN":
            raise QueryError(f"the lambda of {name} is {body.type}; it must be BOOLEAN")
        return typed_call(name, *arguments)

    return resolve


def _applied(call: Call, values: Values, lists: Lists, place: int = 1) -> pa.Array:
    """Compute a lambda for every element (and its place from 0, if it asks)."""
    body = call.arguments[place]
    assert isinstance(body, Lambda)
    compute: Any = values[place]
    parameters: list[pa.Array] = [lists.values]
    if lists.items is not None:
        parameters.append(lists.items)
    elif len(body.parameters) > 1:
        parameters.append(pa.array(lists.places.astype(np.int32)))
    count = len(lists.values)
    result = compute(parameters[: len(body.parameters)], pa.array(lists.parents), count)
    return as_array(result, count)


def _transform_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    return replace(lists, values=_applied(call, values, lists)).array(call.type)


def _filter_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    kept = np.asarray(pc.fill_null(_applied(call, values, lists), False))
    return lists.chosen(np.flatnonzero(kept)).array(call.type)


def _quantifier(wanted: bool) -> Kernel:
    """Make exists (`wanted` true) and forall (false): NULL where only NULLs could decide."""

    def kernel(call: Call, values: Values, rows: int) -> Value:
        lists = Lists.of(values[0], rows)
        truth = _applied(call, values, lists)
        decides = np.asarray(pc.fill_null(pc.equal(truth, wanted), False))
        decided, unknown = np.zeros(rows, bool), np.zeros(rows, bool)
        decided[lists.parents[decides]] = True
        unknown[lists.parents[np.asarray(truth.is_null())]] = True
        mask = unknown & ~decided
        result = decided if wanted else ~decided
        return pa.array(result, mask=mask if lists.null is None else mask | lists.null)

    return kernel


def _aggregate(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    name = "aggregate"
    check_count(name, arguments, 3, 4)
    ARRAY.taken(name, arguments, 0, dialect)
    for place in range(2, len(arguments)):
        if not isinstance(arguments[place], Lambda):
            raise wrong_argument(name, place, arguments[place], "a lambda such as (acc, x) -> …")
    start, merge = arguments[1], arguments[2]
    if start.type.with_nullable(True) != merge.type.with_nullable(True):
        raise QueryError(
            f"the lambda of {name} gives {merge.type}, but it starts with {start.type}: cast one",
            function=name,
        )
    return typed_call(name, *arguments)


def _aggregate_kernel(call: Call, values: Values, rows: int) -> Value:
    """Fold arrays: place by place, all rows that have one at once."""
    lists = Lists.of(values[0], rows)
    merge: Any = values[2]
    state = as_array(values[1], rows)
    for place in range(int(lists.lengths.max(initial=0))):
        at = np.flatnonzero(lists.lengths > place)
        some = pa.array(at)
        elements = lists.values.take(pa.array(lists.begins[at] + place))
        merged = as_array(merge([state.take(some), elements], some, len(at)), len(at))
        chosen = np.zeros(rows, bool)
        chosen[at] = True
        state = pc.replace_with_mask(state, pa.array(chosen), merged.cast(state.type))
    if len(values) == 4:
        finish: Any = values[3]
        state = as_array(finish([state], pa.array(np.arange(rows)), rows), rows)
    return state if lists.null is None else pc.if_else(pa.array(lists.null), None, state)


def _aggregate_type(arguments: tuple[Expression, ...]) -> DataType:
    kind = arguments[-1].type
    return kind.with_nullable(True)


def _zip_with(arguments: tuple[Expression, ...], dialect: Dialect) -> Expression:
    check_count("zip_with", arguments, 3, 3)
    for place in range(2):
        ARRAY.taken("zip_with", arguments, place, dialect)
    if not isinstance(arguments[2], Lambda):
        raise wrong_argument("zip_with", 2, arguments[2], "a lambda such as (x, y) -> x + y")
    return typed_call("zip_with", *arguments)


def _side_by_side(parts: list[Lists], null: np.ndarray | None) -> tuple[Lists, list[pa.Array]]:
    """Give the elements of arrays place by place, NULL where one is shorter.

    Returns:
        how many places each row has, and a column an array.
    """
    lengths = np.max([part.lengths for part in parts], axis=0)
    both = Lists(lengths if null is None else np.where(null, 0, lengths), pa.nulls(0))
    columns = []
    for part in parts:
        missing = both.places >= part.lengths[both.parents]
        index = np.where(missing, 0, part.begins[both.parents] + both.places)
        columns.append(part.values.take(pa.array(index, mask=missing)))
    return both, columns


def _zip_with_kernel(call: Call, values: Values, rows: int) -> Value:
    null = null_rows(list(values[:2]), rows)
    both, parameters = _side_by_side([Lists.of(value, rows) for value in values[:2]], null)
    compute: Any = values[2]
    made = compute(parameters, pa.array(both.parents), len(both.parents))
    return replace(both, values=as_array(made, len(both.parents))).array(call.type, null)


def _map_filter_kernel(call: Call, values: Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    kept = np.asarray(pc.fill_null(_applied(call, values, lists), False))
    return lists.chosen(np.flatnonzero(kept)).array(call.type)


def _transform_map(keys: bool) -> Kernel:
    def kernel(call: Call, values: Values, rows: int) -> Value:
        lists = Lists.of(values[0], rows)
        made = _applied(call, values, lists)
        if not keys:
            return replace(lists, items=made).array(call.type)
        return _checked_map(call, replace(lists, values=made))

    return kernel


NESTED.add(
    "transform",
    "transform(ARRAY<x>, x -> y) -> ARRAY<y>",
    "Compute each element anew; (x, i) -> … has its place from 0.",
    _with_lambda("transform"),
    _transform_kernel,
    lambda arguments: _array_of(arguments[1].type, arguments[0].type.nullable),
)
NESTED.add(
    "filter",
    "filter(ARRAY<x>, x -> BOOLEAN) -> ARRAY<x>",
    "Keep the elements for which the condition is true.",
    _with_lambda("filter", boolean=True),
    _filter_kernel,
    lambda arguments: arguments[0].type,
)
for _name, _about, _wanted, _synonym in (
    ("exists", "Whether the condition is true of an element.", True, "any_match"),
    ("forall", "Whether the condition is true of all elements.", False, "all_match"),
):
    NESTED.add(
        _name,
        f"{_name}(ARRAY<x>, x -> BOOLEAN) -> BOOLEAN",
        _about,
        _with_lambda(_name, boolean=True),
        _quantifier(_wanted),
        result(BOOLEAN),
        synonyms=(_synonym,),
    )
NESTED.add(
    "aggregate",
    "aggregate(ARRAY<x>, start, (acc, x) -> acc [, acc -> result]) -> result",
    "Fold the elements into one value.",
    _aggregate,
    _aggregate_kernel,
    _aggregate_type,
    synonyms=("reduce",),
)
NESTED.add(
    "zip_with",
    "zip_with(ARRAY<x>, ARRAY<y>, (x, y) -> z) -> ARRAY<z>",
    "Compute elements of two arrays together; the shorter one's are NULL.",
    _zip_with,
    _zip_with_kernel,
    lambda arguments: _array_of(arguments[2].type, any_nullable(arguments[:2])),
)
NESTED.add(
    "map_filter",
    "map_filter(MAP, (key, value) -> BOOLEAN) -> MAP",
    "Keep the pairs for which the condition is true.",
    _with_lambda("map_filter", boolean=True, of=MAP),
    _map_filter_kernel,
    lambda arguments: arguments[0].type,
)
NESTED.add(
    "transform_values",
    "transform_values(MAP, (key, value) -> x) -> MAP",
    "Compute each value anew.",
    _with_lambda("transform_values", of=MAP),
    _transform_map(keys=False),
    lambda arguments: _map_of(_key(arguments[0]), arguments[1].type, arguments[0].type.nullable),
)
NESTED.add(
    "transform_keys",
    "transform_keys(MAP, (key, value) -> x) -> MAP",
    "Compute each key anew; a key twice fails.",
    _with_lambda("transform_keys", of=MAP),
    _transform_map(keys=True),
    lambda arguments: _map_of(arguments[1].type, _value(arguments[0]), arguments[0].type.nullable),
)
