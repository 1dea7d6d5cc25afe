"""Functions that make maps, put them together and take them apart."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import pyarrow as pa

from pkray.columns.keys import argsort, codes
from pkray.errors import EvaluationError, QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import signatures
from pkray.relational.functions.coercion import STRING, any_nullable, coerced
from pkray.relational.functions.function import Typing, Value, Written, typed_call, wrong_argument
from pkray.relational.functions.nested import arguments as args
from pkray.relational.functions.nested.lists import Lists
from pkray.relational.functions.nested.making import interleaved
from pkray.relational.functions.text.matches import pattern_of, refuse_pattern, split_at
from pkray.relational.functions.values import as_array, null_rows, refuse
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import DataField, DataType


def _map(call: Written) -> Expression:
    if len(call.arguments) % 2:
        raise QueryError("map takes keys and values in pairs", function="map")
    keys = coerced(call.arguments[::2], call.dialect, "keys of a map")
    values = coerced(call.arguments[1::2], call.dialect, "values of a map")
    pairs = zip(keys, values, strict=True)
    return typed_call("map", *(each for pair in pairs for each in pair))


def _type_of_map(arguments: tuple[Expression, ...]) -> DataType:
    if not arguments:
        return args.map_type(STRING, STRING, False)
    nullable = any_nullable(arguments[1::2])
    return args.map_type(arguments[0].type, arguments[1].type.with_nullable(nullable), False)


def checked_map(call: Call, lists: Lists, null: np.ndarray | None = None) -> pa.Array:
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


def _type_of_entries(arguments: tuple[Expression, ...]) -> DataType:
    fields = (
        DataField(0, "key", args.key_of(arguments[0])),
        DataField(1, "value", args.value_of(arguments[0])),
    )
    return args.array_type(DataType("ROW", False, fields=fields), arguments[0].type.nullable)


def _type_from_entries(arguments: tuple[Expression, ...]) -> DataType:
    fields = args.element_of(arguments[0]).fields or ()
    return args.map_type(fields[0].type, fields[1].type, arguments[0].type.nullable)


def _map_from_entries(call: Written) -> Expression:
    (array,) = call.taken(args.ARRAY)
    element = args.element_of(array)
    if element.root != "ROW" or len(element.fields or ()) != 2:
        raise wrong_argument(call.name, 0, array, "an ARRAY of ROWs of two fields")
    return typed_call(call.name, array)


def _map_part(call: Call, values: args.Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    part = lists.values if call.function == "map_keys" else lists.items
    assert part is not None
    return Lists(lists.lengths, part, lists.null).array(call.type)


def _array_of(kind_of: Callable[[Expression], DataType]) -> Typing:
    return lambda arguments: args.array_type(kind_of(arguments[0]), arguments[0].type.nullable)


def _united(arguments: tuple[Expression, ...]) -> DataType:
    value = args.value_of(arguments[0])
    value = value.with_nullable(any(args.value_of(each).nullable for each in arguments))
    return args.map_type(args.key_of(arguments[0]), value, any_nullable(arguments))


@args.NESTED.kernel(
    "map(key, value, …) -> MAP", "Make a map; a key twice fails.", _map, _type_of_map
)
def _map_kernel(call: Call, values: args.Values, rows: int) -> Value:
    kind = call.type.arrow
    keys = [as_array(value, rows).cast(kind.key_type) for value in values[::2]]
    items = [as_array(value, rows).cast(kind.item_type) for value in values[1::2]]
    if not keys:
        empty = pa.array([], kind.key_type), pa.array([], kind.item_type)
        return Lists(np.zeros(rows, np.int64), empty[0], None, empty[1]).array(call.type)
    lists = Lists(np.full(rows, len(keys)), interleaved(keys, rows), None, interleaved(items, rows))
    return checked_map(call, lists)


@args.NESTED.kernel(
    "map_from_arrays(ARRAY keys, ARRAY values) -> MAP",
    "Make a map of two arrays.",
    signatures.takes(args.ARRAY, args.ARRAY),
    lambda arguments: args.map_type(
        args.element_of(arguments[0]), args.element_of(arguments[1]), any_nullable(arguments)
    ),
)
def _map_from_arrays_kernel(call: Call, values: args.Values, rows: int) -> Value:
    keys, items = (Lists.of(value, rows) for value in values)
    null = null_rows(values, rows)
    wrong = pa.array(keys.lengths != items.lengths)
    refuse(call, values, wrong, "has keys and values of different number", rows)
    kept = np.flatnonzero(~null[keys.parents])
    others = np.flatnonzero(~null[items.parents])
    pairs = replace(keys.chosen(kept), items=items.chosen(others).values, null=None)
    return checked_map(call, pairs, null)


@args.NESTED.kernel(
    "map_from_entries(ARRAY<ROW<key, value>>) -> MAP",
    "Make a map of pairs.",
    _map_from_entries,
    _type_from_entries,
)
def _map_from_entries_kernel(call: Call, values: args.Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    keys, items = lists.values.flatten()
    return checked_map(call, Lists(lists.lengths, keys, lists.null, items))


@args.NESTED.infallible.kernel(
    "map_entries(MAP) -> ARRAY<ROW<key, value>>",
    "Give a map's pairs.",
    signatures.takes(args.MAP),
    _type_of_entries,
)
def _map_entries_kernel(call: Call, values: args.Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    row = call.type.arrow.value_type
    entries = pa.StructArray.from_arrays(
        [lists.values, lists.items], fields=[row.field(0), row.field(1)]
    )
    return Lists(lists.lengths, entries, lists.null).array(call.type)


for _what, _kind_of in (("keys", args.key_of), ("values", args.value_of)):
    args.NESTED.infallible.add(
        f"map_{_what}(MAP) -> ARRAY",
        f"Give a map's {_what}.",
        signatures.takes(args.MAP),
        _map_part,
        _array_of(_kind_of),
    )


def _map_union_spark(call: Call, arguments: Sequence[str]) -> str:
    def union(one: str, other: str) -> str:
        rest = f"map_filter({one}, (k, v) -> NOT map_contains_key({other}, k))"
        return f"map_concat({rest}, {other})"

    return reduce(union, arguments)


def _str_to_map(call: Written) -> Expression:
    name = "str_to_map"
    _, *said = call.between(1, 3)
    value = signatures.text.taken(call, 0)
    inside = ":" if call.dialect is Dialect.SPARK else "="
    between = [signatures.text_literal(each) for each in (",", inside)]
    for place, each in enumerate(said):
        if not isinstance(each, Literal) or not isinstance(each.value, str):
            raise QueryError(f"the separators of {name} must be constant text", function=name)
        between[place] = signatures.text_literal(each.value)
    for each in between:
        refuse_pattern(name, each)
    return typed_call(name, value, *between)


def _all_pairs(
    call: Call, values: args.Values, null: np.ndarray
) -> tuple[np.ndarray, pa.Array, pa.Array]:
    """Give the row, the key and the value of each pair of maps, those of a NULL row left out."""
    parts = [Lists.of(value, len(null)) for value in values]
    parts = [part.chosen(np.flatnonzero(~null[part.parents])) for part in parts]
    kind = call.type.arrow
    keys = pa.concat_arrays([part.values.cast(kind.key_type) for part in parts])
    items = pa.concat_arrays(
        [part.items.cast(kind.item_type) for part in parts if part.items is not None]
    )
    return np.concatenate([part.parents for part in parts]), keys, items


@args.NESTED.kernel(
    "map_concat(MAP, …) -> MAP",
    "Put maps together; a key twice fails.",
    signatures.takes(args.MAP, rest=args.MAP, alike=True),
    _united,
)
def _map_concat_kernel(call: Call, values: args.Values, rows: int) -> Value:
    null = null_rows(values, rows)
    parents, keys, items = _all_pairs(call, values, null)
    order = pa.array(argsort([parents], len(parents)))
    lengths = np.bincount(parents, minlength=rows)
    return checked_map(call, Lists(lengths, keys.take(order), None, items.take(order)), null)


@args.NESTED.only(Dialect.FLINK).infallible.kernel(
    "map_union(MAP, …) -> MAP",
    "Put maps together; of a key that several have, the last value counts.",
    signatures.takes(args.MAP, rest=args.MAP, alike=True),
    _united,
    _map_union_spark,
)
def _map_union_kernel(call: Call, values: args.Values, rows: int) -> Value:
    """Put maps together; of a key that several have, the last value counts."""
    null = null_rows(values, rows)
    parents, keys, items = _all_pairs(call, values, null)
    numbers = codes([pa.array(parents), keys], len(keys))
    first = numbers.first_rows()
    last = np.empty(numbers.count, np.int64)
    last[numbers.of_row] = np.arange(len(keys))
    order = argsort([parents[first], first], len(first))
    lengths = np.bincount(parents[first], minlength=rows)
    chosen = keys.take(pa.array(first[order])), items.take(pa.array(last[order]))
    return Lists(lengths, chosen[0], None, chosen[1]).array(call.type, null)


@args.NESTED.kernel(
    "str_to_map(text [, between pairs [, between key and value]]) -> MAP<STRING, STRING>",
    "Read pairs such as 'a:1,b:2'; 'a=1,b=2' in the flink dialect.",
    _str_to_map,
    lambda arguments: args.map_type(STRING, STRING, arguments[0].type.nullable),
)
def _str_to_map_kernel(call: Call, values: args.Values, rows: int) -> Value:
    pairs, value = (
        pattern_of(call.function, str(getattr(each, "value", ""))) for each in call.arguments[1:]
    )
    lists = Lists.of(split_at(as_array(values[0], rows), pairs, -1), rows)
    halves = Lists.of(split_at(lists.values, value, 2), len(lists.values))
    first = halves.values.take(pa.array(halves.begins))
    second = np.where(halves.lengths > 1, halves.begins + 1, 0)
    items = halves.values.take(pa.array(second, mask=halves.lengths < 2))
    return checked_map(call, replace(lists, values=first, items=items))
