"""Comparisons, logic and patterns."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.keys import codes, dense_ranks, one_zero
from pkray.errors import QueryError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.coercion import (
    BOOLEAN,
    FLOATS,
    any_nullable,
    cast_to,
    coerced,
    has_order,
    is_untyped_null,
    wider,
)
from pkray.relational.functions.evaluation.compiled import fold
from pkray.relational.functions.function import Family, Value, Written
from pkray.relational.functions.kernels import by_arrow
from pkray.relational.functions.signatures import anything, boolean, takes, text
from pkray.relational.functions.text.patterns import by_pattern, like_regex, match_regex, plain_like
from pkray.relational.functions.values import as_array
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import INTEGERS, TIMESTAMPS, DataType

COMPARISON = Family("comparison")

_EQUALITIES = ("equal", "not_equal", "not_distinct")
Compare: TypeAlias = Callable[[Value, Value], Value]
Writing: TypeAlias = Callable[[Call, Sequence[str]], str]
NOT_NULL_STRING = DataType("STRING", nullable=False)


def _pair(call: Written) -> tuple[Expression, Expression]:
    """Bring two values to one type; a constant is brought to the other's type where it fits."""
    one, other = call.exactly(2)
    left, right = coerced(
        (_fitted(one, other), _fitted(other, one)), call.dialect, "compared values"
    )
    if not (call.name in _EQUALITIES or has_order(left.type)):
        raise UnsupportedError(f"{left.type} values cannot be compared by {call.name}")
    return left, right


def _fitted(value: Expression, other: Expression) -> Expression:
    value = fold(value) if value.type.root in TIMESTAMPS else value
    if not isinstance(value, Literal) or value.value is None:
        return value
    if value.type.root in TIMESTAMPS:
        return _with_fewer_digits(value, other.type)
    if value.type.root in (*INTEGERS, "DECIMAL") and other.type.root in (*INTEGERS, "DECIMAL"):
        fitted = cast_to(value, other.type)
        return fitted if isinstance(fitted, Literal) else value
    return value


def _with_fewer_digits(value: Literal, kind: DataType) -> Literal:
    """Write a constant time with the digits of a column, so that the column needs no cast."""
    precision = kind.precision or 0
    if kind.root != value.type.root or precision >= min(value.type.precision or 0, 7):
        return value
    if value.value.microsecond % 10 ** (6 - precision):
        return value
    return Literal(kind.with_nullable(False), value.value)


def _compares(call: Written) -> Expression:
    pair = _pair(call)
    nullable = call.name != "not_distinct" and any_nullable(pair)
    return Call(BOOLEAN.with_nullable(nullable), call.name, pair)


def _floating(call: Call) -> bool:
    return call.arguments[0].type.root in FLOATS


def _never_nan(value: Value) -> bool:
    return isinstance(value, pa.Scalar) and not (value.is_valid and value.as_py() != value.as_py())


def _float_equal(left: Value, right: Value) -> Value:
    same = pc.equal(left, right)
    if _never_nan(left) or _never_nan(right):
        return same
    return pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _float_greater_equal(left: Value, right: Value) -> Value:
    greater = pc.greater_equal(left, right)
    return greater if _never_nan(left) else pc.or_(greater, pc.is_nan(left))


def _float_less(left: Value, right: Value) -> Value:
    if _never_nan(right):
        return pc.less(left, right)
    return pc.invert(_float_greater_equal(left, right))


def equal_values(left: Value, right: Value) -> Value:
    """Compare for equality, NaN being equal to itself; NULL where one is NULL.

    Of arrays, maps and rows both are columns.
    """
    if pa.types.is_floating(left.type):
        return _float_equal(left, right)
    if pa.types.is_nested(left.type):
        return _nested_equal(left, right)
    return pc.equal(left, right)


def _by_number(number: Callable[[pa.Array], np.ndarray], compare: Any) -> Compare:
    """Compare columns of arrays, maps or rows by numbers that values are given."""

    def compared(left: Value, right: Value) -> Value:
        numbers = number(pa.concat_arrays([left, right]))
        missing = np.asarray(pc.or_(left.is_null(), right.is_null()))
        return pa.array(compare(numbers[: len(left)], numbers[len(left) :]), mask=missing)

    return compared


def _same_numbers(values: pa.Array) -> np.ndarray:
    """Number values; NULLs inside are equal, and 0.0 and -0.0."""
    return codes([one_zero(values)], len(values)).of_row


_nested_equal = _by_number(_same_numbers, np.equal)


_PLAIN: dict[str, Compare] = {
    "equal": pc.equal,
    "not_equal": pc.not_equal,
    "less": pc.less,
    "less_equal": pc.less_equal,
    "greater": pc.greater,
    "greater_equal": pc.greater_equal,
}


_NESTED: dict[str, Compare] = {
    "equal": _nested_equal,
    "not_equal": _by_number(_same_numbers, np.not_equal),
    "less": _by_number(dense_ranks, np.less),
    "less_equal": _by_number(dense_ranks, np.less_equal),
    "greater": _by_number(dense_ranks, np.greater),
    "greater_equal": _by_number(dense_ranks, np.greater_equal),
}
_FLOATING: dict[str, Compare] = {
    "equal": _float_equal,
    "not_equal": lambda left, right: pc.invert(_float_equal(left, right)),
    "less": _float_less,
    "less_equal": lambda left, right: _float_greater_equal(right, left),
    "greater": lambda left, right: _float_less(right, left),
    "greater_equal": _float_greater_equal,
}


def _compare(call: Call, values: Sequence[Value], rows: int) -> Value:
    table = _FLOATING if _floating(call) else _PLAIN
    if call.arguments[0].type.is_nested:
        table, values = _NESTED, [as_array(each, rows) for each in values]
    return table[call.function](values[0], values[1])


def operator(symbol: str) -> Writing:
    """Make the Spark SQL of an operator between its arguments."""
    return lambda call, arguments: f"({f' {symbol} '.join(arguments)})"


def _without_maps(spark: Writing) -> Writing:
    """Refuse MAPs, of which Spark compares none."""

    def written(call: Call, arguments: Sequence[str]) -> str:
        if not has_order(call.arguments[0].type):
            raise NotImplementedError
        return spark(call, arguments)

    return written


_OTHERWISE = {"=": ("==",), "<>": ("!=",)}
for _name, _symbol, _word in (
    ("equal", "=", "are equal"),
    ("not_equal", "<>", "differ"),
    ("less", "<", "are in ascending order"),
    ("less_equal", "<=", "are equal or in ascending order"),
    ("greater", ">", "are in descending order"),
    ("greater_equal", ">=", "are equal or in descending order"),
):
    COMPARISON.infallible.add(
        f"left {_symbol} right -> BOOLEAN",
        f"Tell whether two values {_word}; NaN is equal to itself and greater than all else.",
        _compares,
        _compare,
        spark=_without_maps(operator(_symbol)),
        synonyms=(_symbol, *_OTHERWISE.get(_symbol, ())),
        name=_name,
    )


@COMPARISON.infallible.kernel(
    "left <=> right -> BOOLEAN",
    "Tell whether two values are equal or both NULL.",
    _compares,
    spark=_without_maps(operator("<=>")),
    synonyms=("<=>", "equal_null"),
    name="not_distinct",
)
def _not_distinct(call: Call, values: Sequence[Value], rows: int) -> Value:
    nested = call.arguments[0].type.is_nested
    left, right = (as_array(each, rows) for each in values) if nested else values
    same = pc.coalesce(equal_values(left, right), False)
    return pc.or_(same, pc.and_(pc.is_null(left), pc.is_null(right)))


def _joined(call: Written) -> Expression:
    parts = tuple(_truth(call, each) for each in call.between(2, None))
    return Call(BOOLEAN.with_nullable(any_nullable(parts)), call.name, parts)


def _truth(call: Written, argument: Expression) -> Expression:
    taken = boolean.cast(argument, call.dialect)
    if taken is None:
        name = call.name
        raise QueryError(f"{name} is of conditions; {argument.type} is none", function=name)
    return taken


@COMPARISON.infallible.kernel(
    "left AND right -> BOOLEAN",
    "Tell whether all conditions are true.",
    _joined,
    spark=operator("AND"),
    name="and",
)
def _and(call: Call, values: Sequence[Value], rows: int) -> Value:
    return reduce(pc.and_kleene, values)


@COMPARISON.infallible.kernel(
    "left OR right -> BOOLEAN",
    "Tell whether a condition is true.",
    _joined,
    spark=operator("OR"),
    name="or",
)
def _or(call: Call, values: Sequence[Value], rows: int) -> Value:
    return reduce(pc.or_kleene, values)


COMPARISON.infallible.add(
    "NOT condition -> BOOLEAN",
    "Tell whether a condition is false.",
    takes(boolean, gives=BOOLEAN),
    lambda call, values, rows: pc.invert(values[0]),
    spark=lambda call, arguments: f"(NOT {arguments[0]})",
    synonyms=("!",),
    name="not",
)


def _suffixed(words: str) -> Writing:
    return lambda call, arguments: f"({arguments[0]} {words})"


for _name, _is, _compute in (
    ("is_null", "is NULL", pc.is_null),
    ("is_not_null", "is not NULL", pc.is_valid),
):
    COMPARISON.infallible.add(
        f"value {_is.upper()} -> BOOLEAN",
        f"Tell whether a value {_is}.",
        takes(anything, gives=BOOLEAN, nullable=False),
        by_arrow(_compute),
        spark=_suffixed(_is.upper()),
        synonyms=(_name.replace("_", ""),),
        name=_name,
    )


def _resolve_in(call: Written) -> Expression:
    value, *choices = call.between(2, None)
    fitted = tuple(_fitted(each, value) for each in choices)
    target = value.type
    for each in fitted:
        if is_untyped_null(each):
            continue
        common = each.type if is_untyped_null(value) else wider(target, each.type, call.dialect)
        if common is None:
            raise QueryError(
                f"IN compares {target.with_nullable(True)} with {each.type.with_nullable(True)}; "
                "cast one of them"
            )
        target = common
    parts = tuple(cast_to(each, target) for each in (value, *fitted))
    return Call(BOOLEAN.with_nullable(any_nullable(parts)), "in", parts)


def _in(call: Call, values: Sequence[Value], rows: int) -> Value:
    value, *choices = values
    if call.arguments[0].type.is_nested:
        column = as_array(value, rows)
        return reduce(pc.or_kleene, (equal_values(column, as_array(c, rows)) for c in choices))
    if _floating(call) or not all(isinstance(each, pa.Scalar) for each in choices):
        return reduce(pc.or_kleene, (equal_values(value, each) for each in choices))
    chosen = [as_array(each, 1) for each in choices if each.is_valid]
    known = pa.concat_arrays([pa.nulls(0, value.type), *chosen])
    found = pc.is_in(value, value_set=known)
    if any(not each.is_valid for each in choices):
        found = pc.if_else(found, True, pa.scalar(None, pa.bool_()))
    return pc.if_else(pc.is_valid(value), found, pa.scalar(None, pa.bool_()))


@_without_maps
def _spark_in(call: Call, arguments: Sequence[str]) -> str:
    return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"


COMPARISON.infallible.add(
    "value IN (value, …) -> BOOLEAN",
    "Tell whether a value is one of others.",
    _resolve_in,
    _in,
    spark=_spark_in,
    name="in",
)


def _likes(call: Written) -> Expression:
    if len(call.arguments) == 2 and call.dialect is Dialect.FLINK:
        call = call._replace(arguments=(*call.arguments, Literal(NOT_NULL_STRING, "")))
    escape = call.arguments[2] if len(call.arguments) > 2 else None
    if escape is not None and not (
        isinstance(escape, Literal) and isinstance(escape.value, str) and len(escape.value) < 2
    ):
        raise QueryError(f"ESCAPE of {call.name} is one character, written as a constant")
    return takes(text, text, text, gives=BOOLEAN, least=2)(call)


def _like(call: Call, values: Sequence[Value], rows: int) -> Value:
    escape = values[2].as_py() if len(values) > 2 else "\\"
    ignore_case = call.function == "ilike"

    def match(texts: Value, pattern: str) -> Value:
        fast = None if ignore_case else plain_like(texts, pattern, escape)
        if fast is not None:
            return fast
        return match_regex(call, texts, like_regex(pattern, escape), ignore_case=ignore_case)

    return by_pattern(values[0], values[1], match, pa.bool_(), rows)


def _spark_like(call: Call, arguments: Sequence[str]) -> str:
    word = call.function.upper()
    if len(arguments) == 2:
        return f"({arguments[0]} {word} {arguments[1]})"
    escape: Any = call.arguments[2]
    pattern: Any = call.arguments[1]
    if escape.value == "" and isinstance(pattern, Literal) and "\\" not in str(pattern.value):
        return f"({arguments[0]} {word} {arguments[1]})"
    if escape.value == "":
        doubled = f"replace({arguments[1]}, '\\\\', '\\\\\\\\')"
        return f"({arguments[0]} {word} {doubled})"
    return f"({arguments[0]} {word} {arguments[1]} ESCAPE {arguments[2]})"


for _name, _about in (
    ("like", "Match text with a pattern in which % is any text and _ any character."),
    ("ilike", "Match text with a LIKE pattern, whatever the case of letters."),
):
    COMPARISON.add(
        f"text {_name.upper()} pattern [ESCAPE character] -> BOOLEAN",
        _about,
        _likes,
        _like,
        spark=_spark_like,
        name=_name,
    )
