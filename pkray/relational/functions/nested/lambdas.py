"""Functions that compute a lambda over all elements of a batch at once."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.keys import argsort, codes, one_zero
from pkray.errors import QueryError
from pkray.relational.functions.coercion import BOOLEAN, any_nullable
from pkray.relational.functions.function import (
    Kernel,
    Parameter,
    Resolver,
    Value,
    Written,
    typed_call,
    wrong_argument,
)
from pkray.relational.functions.nested import arguments as args
from pkray.relational.functions.nested.lists import Lists
from pkray.relational.functions.nested.making import side_by_side
from pkray.relational.functions.nested.maps import checked_map
from pkray.relational.functions.signatures import result
from pkray.relational.functions.values import as_array, null_rows
from pkray.relational.plan.expressions import Call, Expression, Lambda


def _with_lambda(*, boolean: bool = False, of: Parameter = args.ARRAY) -> Resolver:
    def resolve(call: Written) -> Expression:
        _, body = call.exactly(2)
        of.taken(call, 0)
        if not isinstance(body, Lambda):
            raise wrong_argument(call.name, 1, body, "a lambda such as x -> x + 1")
        if boolean and body.type.root != "BOOLEAN":
            raise QueryError(f"the lambda of {call.name} is {body.type}; it must be BOOLEAN")
        return typed_call(call.name, *call.arguments)

    return resolve


def _applied(call: Call, values: args.Values, lists: Lists, place: int = 1) -> pa.Array:
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


def _quantifier(wanted: bool) -> Kernel:
    """Make exists (`wanted` true) and forall (false): NULL where only NULLs could decide."""

    def kernel(call: Call, values: args.Values, rows: int) -> Value:
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


def _aggregate(call: Written) -> Expression:
    name = "aggregate"
    _, start, merge, *end = call.between(3, 4)
    args.ARRAY.taken(call, 0)
    for place, each in enumerate((merge, *end), 2):
        if not isinstance(each, Lambda):
            raise wrong_argument(name, place, each, "a lambda such as (acc, x) -> …")
    if start.type.with_nullable(True) != merge.type.with_nullable(True):
        raise QueryError(
            f"the lambda of {name} gives {merge.type}, but it starts with {start.type}: cast one",
            function=name,
        )
    return typed_call(name, *call.arguments)


def _zips(of: Parameter, example: str) -> Resolver:
    def resolve(call: Written) -> Expression:
        *_, body = call.exactly(3)
        for place in range(2):
            of.taken(call, place)
        if not isinstance(body, Lambda):
            raise wrong_argument(call.name, 2, body, f"a lambda such as {example}")
        return typed_call(call.name, *call.arguments)

    return resolve


def _transform_map(keys: bool) -> Kernel:
    def kernel(call: Call, values: args.Values, rows: int) -> Value:
        lists = Lists.of(values[0], rows)
        made = _applied(call, values, lists)
        if not keys:
            return replace(lists, items=made).array(call.type)
        return checked_map(call, replace(lists, values=made))

    return kernel


@args.NESTED.kernel(
    "transform(ARRAY<x>, x -> y) -> ARRAY<y>",
    "Compute each element anew; (x, i) -> … has its place from 0.",
    _with_lambda(),
    lambda arguments: args.array_type(arguments[1].type, arguments[0].type.nullable),
)
def _transform_kernel(call: Call, values: args.Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    return replace(lists, values=_applied(call, values, lists)).array(call.type)


@args.NESTED.kernel(
    "filter(ARRAY<x>, x -> BOOLEAN) -> ARRAY<x>",
    "Keep the elements for which the condition is true.",
    _with_lambda(boolean=True),
    lambda arguments: arguments[0].type,
)
@args.NESTED.kernel(
    "map_filter(MAP, (key, value) -> BOOLEAN) -> MAP",
    "Keep the pairs for which the condition is true.",
    _with_lambda(boolean=True, of=args.MAP),
    lambda arguments: arguments[0].type,
)
def _filter_kernel(call: Call, values: args.Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    kept = np.asarray(pc.fill_null(_applied(call, values, lists), False))
    return lists.chosen(np.flatnonzero(kept)).array(call.type)


for _name, _about, _wanted, _synonym in (
    ("exists", "Whether the condition is true of an element.", True, "any_match"),
    ("forall", "Whether the condition is true of all elements.", False, "all_match"),
):
    args.NESTED.add(
        f"{_name}(ARRAY<x>, x -> BOOLEAN) -> BOOLEAN",
        _about,
        _with_lambda(boolean=True),
        _quantifier(_wanted),
        result(BOOLEAN),
        synonyms=(_synonym,),
    )


@args.NESTED.kernel(
    "aggregate(ARRAY<x>, start, (acc, x) -> acc [, acc -> result]) -> result",
    "Fold the elements into one value.",
    _aggregate,
    lambda arguments: arguments[-1].type.with_nullable(True),
    synonyms=("reduce",),
)
def _aggregate_kernel(call: Call, values: args.Values, rows: int) -> Value:
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


@args.NESTED.kernel(
    "zip_with(ARRAY<x>, ARRAY<y>, (x, y) -> z) -> ARRAY<z>",
    "Compute elements of two arrays together; the shorter one's are NULL.",
    _zips(args.ARRAY, "(x, y) -> x + y"),
    lambda arguments: args.array_type(arguments[2].type, any_nullable(arguments[:2])),
)
def _zip_with_kernel(call: Call, values: args.Values, rows: int) -> Value:
    null = null_rows(values[:2], rows)
    both, parameters = side_by_side([Lists.of(value, rows) for value in values[:2]], null)
    compute: Any = values[2]
    made = compute(parameters, pa.array(both.parents), len(both.parents))
    return replace(both, values=as_array(made, len(both.parents))).array(call.type, null)


@args.NESTED.kernel(
    "map_zip_with(MAP, MAP, (key, x, y) -> z) -> MAP",
    "Compute values of two maps together, by their keys; one that a map has not is NULL.",
    _zips(args.MAP, "(k, x, y) -> x + y"),
    lambda arguments: args.map_type(
        args.key_of(arguments[0]), arguments[2].type, any_nullable(arguments[:2])
    ),
)
def _map_zip_with_kernel(call: Call, values: args.Values, rows: int) -> Value:
    null = null_rows(values[:2], rows)
    one, other = (Lists.of(value, rows) for value in values[:2])
    one, other = (each.chosen(np.flatnonzero(~null[each.parents])) for each in (one, other))
    kind = call.type.arrow.key_type
    keys = pa.concat_arrays([one.values.cast(kind), other.values.cast(kind)])
    parents = np.concatenate([one.parents, other.parents])
    numbers = codes([pa.array(parents), one_zero(keys)], len(keys))
    first = numbers.first_rows()
    order = argsort([parents[first], first], len(first))
    items = []
    for place, part in enumerate((one, other)):
        begin = place * len(one.values)
        at = np.full(numbers.count, -1)
        at[numbers.of_row[begin : begin + len(part.values)]] = np.arange(len(part.values))
        assert part.items is not None
        items.append(part.items.take(pa.array(at[order], mask=at[order] < 0)))
    rows_of = parents[first[order]]
    chosen = keys.take(pa.array(first[order]))
    compute: Any = values[2]
    body = call.arguments[2]
    assert isinstance(body, Lambda)
    given = [chosen, *items][: len(body.parameters)]
    made = as_array(compute(given, pa.array(rows_of), len(rows_of)), len(rows_of))
    lengths = np.bincount(rows_of, minlength=rows)
    return Lists(lengths, chosen, None, made).array(call.type, null)


args.NESTED.add(
    "transform_values(MAP, (key, value) -> x) -> MAP",
    "Compute each value anew.",
    _with_lambda(of=args.MAP),
    _transform_map(keys=False),
    lambda arguments: args.map_type(
        args.key_of(arguments[0]), arguments[1].type, arguments[0].type.nullable
    ),
)
args.NESTED.add(
    "transform_keys(MAP, (key, value) -> x) -> MAP",
    "Compute each key anew; a key twice fails.",
    _with_lambda(of=args.MAP),
    _transform_map(keys=True),
    lambda arguments: args.map_type(
        arguments[1].type, args.value_of(arguments[0]), arguments[0].type.nullable
    ),
)
