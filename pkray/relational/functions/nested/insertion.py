"""Functions that put values into arrays and cut parts out of them, by place."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pkray.errors import EvaluationError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.coercion import INT, any_nullable, cast_to, is_untyped_null
from pkray.relational.functions.function import Value, Written, typed_call
from pkray.relational.functions.nested import arguments as args
from pkray.relational.functions.nested.lists import Lists, whole_numbers
from pkray.relational.functions.numbers.chance import no_seed
from pkray.relational.functions.signatures import integer, parameter, takes
from pkray.relational.functions.values import as_array, null_rows
from pkray.relational.plan.expressions import Call, Expression
from pkray.schema.types import DataType

_MOST = 1 << 27
"""Elements that one batch of results may have: its places take a gigabyte."""


@parameter("an INT")
def _place(argument: Expression, dialect: Dialect) -> Expression | None:
    if is_untyped_null(argument):
        return cast_to(argument, INT)
    taken = argument.type.root in ("TINYINT", "SMALLINT", "INT")
    return cast_to(argument, INT) if taken else None


def _insert(call: Written) -> Expression:
    """Resolve array_insert(array, place, value)."""
    given, _, new = call.exactly(3)
    args.ARRAY.taken(call, 0)
    place = _place.taken(call, 1)
    array, value = args.with_element(call._replace(arguments=(given, new)))
    return typed_call(call.name, array, place, value)


def _inserted_type(arguments: tuple[Expression, ...]) -> DataType:
    element = args.element_of(arguments[0]).with_nullable(True)
    return args.array_type(element, any_nullable(arguments[:2]))


@args.NESTED.kernel(
    "array_insert(ARRAY<x>, place INT, x) -> ARRAY<x>",
    "Put a value at a place, counted from 1, or from the end if negative; NULLs fill what is "
    "between it and the elements.",
    _insert,
    _inserted_type,
)
def _insert_kernel(call: Call, values: args.Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    null = null_rows([values[0], values[1]], rows)
    known = ~null
    place = whole_numbers(values[1], rows, 1)
    if np.any((place == 0) & known):
        raise EvaluationError(
            "array_insert has no place 0: the first is 1, the last -1", function="array_insert"
        )
    old = lists.lengths
    at = np.where(place > 0, place - 1, old + 1 + place)
    before = np.maximum(-at, 0)  # NULLs between the new element and the old ones
    at = np.maximum(at, 0)
    lengths = np.where(known, np.maximum(old + before, at) + 1, 0)
    total = int(lengths.sum())
    if total > _MOST:
        row = int(np.argmax(lengths))
        raise EvaluationError(
            f"array_insert makes arrays of {total} elements in one batch, one of them of "
            f"{lengths[row]}: insert at a place nearer to the array",
            function="array_insert",
            row=row,
        )
    begins = np.cumsum(lengths) - lengths
    moved = lists.places + (lists.places >= at[lists.parents]) + before[lists.parents]
    taken = np.full(total, -1)
    kept = known[lists.parents]
    taken[(begins[lists.parents] + moved)[kept]] = np.flatnonzero(kept)
    taken[(begins + at)[known]] = len(lists.values) + np.flatnonzero(known)
    kind = call.type.arrow.value_type
    both = pa.concat_arrays([lists.values.cast(kind), as_array(values[2], rows).cast(kind)])
    made = both.take(pa.array(taken, mask=taken < 0))
    return Lists(lengths, made, None).array(call.type, null)


@args.NESTED.only(args.FLINK).infallible.kernel(
    "array_slice(ARRAY, first [, last]) -> ARRAY",
    "Keep the elements from a place to another, counted from 1, or from the end if negative.",
    takes(args.ARRAY, integer, integer, least=2),
    args.typed_as_first,
    lambda call, arguments: (
        f"IF({' OR '.join(f'({each} IS NULL)' for each in arguments)}, NULL, "
        f"transform(filter(transform({arguments[0]}, (x, i) -> struct(x, i)), "
        f"p -> p.i >= {_from_zero(arguments, 1)} AND p.i <= {_from_zero(arguments, 2)}), p -> p.x))"
    ),
)
def _part_kernel(call: Call, values: args.Values, rows: int) -> Value:
    """Keep elements from a place to another, both included; flink counts 0 as the first."""
    lists = Lists.of(values[0], rows)
    ends = [whole_numbers(each, rows, 1) for each in values[1:]]
    first, last = (
        np.where(each < 0, lists.lengths + each, np.maximum(each, 1) - 1)
        for each in (ends[0], ends[1] if len(ends) > 1 else np.full(rows, -1))
    )
    parents = lists.parents
    inside = (lists.places >= first[parents]) & (lists.places <= last[parents])
    null = null_rows(values, rows)
    return lists.chosen(np.flatnonzero(inside)).array(call.type, null)


def _shuffle(call: Written) -> Expression:
    no_seed(call, 1)
    return takes(args.ARRAY)(call)


@args.NESTED.only(Dialect.SPARK).infallible.kernel(
    "shuffle(ARRAY) -> ARRAY",
    "Put elements into a random order.",
    _shuffle,
    args.typed_as_first,
    deterministic=False,
)
def _shuffle_kernel(call: Call, values: args.Values, rows: int) -> Value:
    lists = Lists.of(values[0], rows)
    keys = np.random.default_rng().random(len(lists.values))
    return lists.chosen(np.lexsort((keys, lists.parents))).array(call.type)


def _from_zero(arguments: Sequence[str], place: int) -> str:
    """Write a place in Spark SQL, counted from 0."""
    if place == len(arguments):
        return f"(size({arguments[0]}) - 1)"
    said = arguments[place]
    return f"IF({said} < 0, size({arguments[0]}) + {said}, greatest({said}, 1) - 1)"
