"""Functions that choose between values."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import coercion, function, signatures
from pkray.relational.functions.function import Family, Value, Written, wrong_argument
from pkray.relational.functions.values import as_array
from pkray.relational.plan.expressions import Call, Case, Expression, Lambda, Literal
from pkray.schema.types import STRINGS

CONDITIONAL = Family("conditional")


def _coalesce(call: Written) -> Expression:
    values = coercion.coerced(call.between(1, None), call.dialect, "arguments of coalesce")
    kept: list[Expression] = []
    for each in values:
        if not coercion.is_null_literal(each):
            kept.append(each)
        if not each.type.nullable:
            break
    if len(kept) < 2:
        return kept[0] if kept else values[0]
    nullable = all(each.type.nullable for each in kept)
    return Call(kept[0].type.with_nullable(nullable), "coalesce", tuple(kept))


def _nested_coalesce(values: Sequence[Value], rows: int) -> Value:
    found = as_array(values[0], rows)
    for each in values[1:]:
        found = pc.if_else(pc.is_valid(found), found, as_array(each, rows))
    return found


def case_of(
    conditions: Sequence[Expression], values: Sequence[Expression], dialect: Dialect
) -> Expression:
    """Make a Case of conditions and values; the last value stands where no condition is true.

    Raises:
        QueryError: the values have no type in common.
    """
    cast_values = coercion.coerced(values, dialect, "branches of CASE")
    result = cast_values[-1].type.with_nullable(coercion.any_nullable(cast_values))
    return Case(result, tuple(zip(conditions, cast_values, strict=False)), cast_values[-1])


def _if(call: Written) -> Expression:
    said, *values = call.between(2, 3)
    condition = signatures.boolean.cast(said, call.dialect)
    if condition is None:
        raise QueryError(f"the condition of if is {said.type}; it must be BOOLEAN")
    chosen = values if len(values) == 2 else [*values, coercion.untyped_null()]
    return case_of([condition], chosen, call.dialect)


def is_null(value: Expression) -> Expression:
    """Make the question whether a value is NULL."""
    return Call(coercion.BOOLEAN.with_nullable(False), "is_null", (value,))


def _nvl2(call: Written) -> Expression:
    value, *chosen = call.exactly(3)
    present = Call(coercion.BOOLEAN.with_nullable(False), "is_not_null", (value,))
    return case_of([present], chosen, call.dialect)


def _nullif(call: Written) -> Expression:
    same = function.resolve("equal", call.exactly(2), call.dialect)
    return case_of([same], [coercion.untyped_null(), call.arguments[0]], call.dialect)


def _nvl(call: Written) -> Expression:
    call.exactly(2)
    return _coalesce(call)


_ZERO = Literal(coercion.INT.with_nullable(False), 0)


def _beside_zero(call: Written) -> Written:
    """Put 0 after the one argument, a number."""
    (value,) = call.exactly(1)
    if isinstance(value, Lambda) or value.type.root not in (*coercion.NUMBERS, *STRINGS):
        raise wrong_argument(call.name, 0, value, "a number")
    return call._replace(arguments=(value, _ZERO))


def _zeroifnull(call: Written) -> Expression:
    return _coalesce(_beside_zero(call))


def _nullifzero(call: Written) -> Expression:
    return _nullif(_beside_zero(call))


def _decode(call: Written) -> Expression:
    """Compare with values in turn, NULL being equal to NULL; two arguments: bytes as text."""
    if len(call.arguments) == 2:
        return function.resolve("decode_text", call.arguments, call.dialect)
    value, *rest = call.between(3, None)
    default = rest.pop() if len(rest) % 2 else coercion.untyped_null()
    conditions = [
        is_null(value)
        if coercion.is_null_literal(each)
        else function.resolve("not_distinct", (value, each), call.dialect)
        for each in rest[::2]
    ]
    return case_of(conditions, [*rest[1::2], default], call.dialect)


def _nanvl(call: Written) -> Expression:
    values = tuple(
        coercion.cast_to(each, coercion.DOUBLE)
        if coercion.is_untyped_null(each)
        else signatures.floating.taken(call, place)
        for place, each in enumerate(call.exactly(2))
    )
    wanted = function.resolve("isnan", (values[0],), call.dialect)
    return case_of([wanted], [values[1], values[0]], call.dialect)


@CONDITIONAL.infallible.kernel(
    "coalesce(value, …) -> value", "Give the first value that is not NULL.", _coalesce
)
def _coalesced(call: Call, values: Sequence[Value], rows: int) -> Value:
    if pa.types.is_nested(call.type.arrow):
        return _nested_coalesce(values, rows)
    return pc.coalesce(*values)


for _name, _usage, _about, _resolver, _synonyms in (
    ("nvl", "nvl(value, value) -> value", "Give the second value where the first is NULL.",
     _nvl, ("ifnull",)),
    ("nvl2", "nvl2(value, value, value) -> value",
     "Give the second value where the first is not NULL, else the third.", _nvl2, ()),
    ("if", "if(condition BOOLEAN, value, value) -> value",
     "Give the first value where the condition is true, else the second.", _if, ("iff",)),
    ("nullif", "nullif(value, value) -> value", "Give NULL where two values are equal.",
     _nullif, ()),
    ("zeroifnull", "zeroifnull(number) -> number", "Give 0 in the place of NULL.",
     _zeroifnull, ()),
    ("nullifzero", "nullifzero(number) -> number", "Give NULL in the place of 0.",
     _nullifzero, ()),
    ("decode", "decode(value, search, result, …, [default]) -> result",
     "Give the result beside the first equal search value.", _decode, ()),
    ("nanvl", "nanvl(number, number) -> DOUBLE", "Give the second number where the first is NaN.",
     _nanvl, ()),
):  # fmt: skip
    CONDITIONAL.alias(_usage, _about, _resolver, *_synonyms, name=_name)
CONDITIONAL.infallible.add(
    "isnan(number) -> BOOLEAN",
    "Tell whether a number is NaN; false for NULL.",
    signatures.takes(signatures.floating, gives=coercion.BOOLEAN, nullable=False),
    lambda call, values, rows: pc.fill_null(pc.is_nan(values[0]), False),
)
