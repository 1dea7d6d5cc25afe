"""Lists of values, and texts put together of them."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.aggregates import aggregate
from pkray.relational.functions.aggregates.accumulator import Arrays
from pkray.relational.functions.aggregates.rows import Chosen, lists_of, without
from pkray.relational.functions.coercion import BYTES, STRING, cast_to, with_one_zero
from pkray.relational.functions.function import Written
from pkray.relational.functions.signatures import constant, text_literal
from pkray.relational.plan.expressions import AggregateCall, Literal
from pkray.schema.types import BINARIES, STRINGS, DataType


def _listagg(call: Written) -> aggregate.Resolved:
    value, *given = call.between(1, 2)
    default: Any = "" if call.dialect is Dialect.SPARK and call.name != "group_concat" else ","
    said = constant(call.name, given[0], "the separator") if given else default
    if value.type.root in BINARIES and call.dialect is Dialect.SPARK:
        if given and not isinstance(said, bytes | None):
            problem = f"the separator of {call.name} must be BYTES, as the values are"
            raise QueryError(problem, function=call.name)
        bytes_between = Literal(BYTES.with_nullable(False), (given and said) or b"")
        return aggregate.Resolved("listagg", (cast_to(value, BYTES),), (bytes_between,), BYTES)
    if not isinstance(said, str | None):
        raise QueryError(f"the separator of {call.name} must be text", function=call.name)
    text = value if value.type.root in STRINGS else cast_to(value, STRING)
    return aggregate.Resolved("listagg", (text,), (text_literal(said or ""),), STRING)


def _collected(name: str, *, keeps_nulls: bool = False, empty: bool = True) -> aggregate.Resolver:
    def resolve(call: Written) -> aggregate.Resolved:
        arguments = call.exactly(1)
        if name == "collect_set" and call.dialect is Dialect.SPARK:
            arguments = (with_one_zero(arguments[0]),)
        element = arguments[0].type
        if not keeps_nulls:
            element = element.with_nullable(False)
        kind = DataType("ARRAY", not empty, element=element)
        return aggregate.Resolved(name, arguments, (), kind)

    return resolve


def _array_agg(call: Written) -> aggregate.Resolved:
    if call.dialect is Dialect.SPARK:
        return _collected("collect_list")(call)
    return _collected("array_agg", keeps_nulls=True, empty=False)(call)


def _multiset(call: Written) -> aggregate.Resolved:
    raise UnsupportedError(
        "COLLECT gives a MULTISET, which pkray has no type for: write ARRAY_AGG", function="collect"
    )


def _as_lists(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    """Give the values of each group as an array."""
    lists = lists_of(groups, count, columns[0], call.type.arrow)
    if call.function == "array_agg":
        return without(lists, np.bincount(groups, minlength=count) == 0)
    return lists


def _as_text(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    """Join the texts of each group."""
    lists = lists_of(groups, count, columns[0], pa.list_(call.type.arrow))
    joined = pc.binary_join(lists, pa.scalar(call.parameters[0].value, call.type.arrow))
    return without(joined, np.bincount(groups, minlength=count) == 0)


aggregate.compute("collect_list", "array_agg", accumulate=Chosen.of_all(_as_lists))
aggregate.compute("listagg", accumulate=Chosen.of_all(_as_text))
aggregate.define_aggregate(
    "listagg(x [, separator]) [WITHIN GROUP (ORDER BY …)] -> STRING",
    "Joins text, or BYTES; the separator is empty in the spark dialect, a comma in flink.",
    _listagg,
    "string_agg",
    "group_concat",
)
aggregate.define_aggregate(
    "collect_list(x) -> ARRAY<x>",
    "Gives the values that are not NULL; an empty array where there are none.",
    _collected("collect_list"),
)
aggregate.define_aggregate(
    "collect_set(x) -> ARRAY<x>",
    "Gives the distinct values, as they first occur.",
    _collected("collect_set"),
)
aggregate.define_aggregate(
    "array_agg(x) -> ARRAY<x>",
    "Is collect_list in the spark dialect; in flink keeps NULLs and gives NULL for no rows.",
    _array_agg,
)
aggregate.define_aggregate(
    "collect(x)", "Is refused: use array_agg.", _multiset, dialects=aggregate.FLINK
)
