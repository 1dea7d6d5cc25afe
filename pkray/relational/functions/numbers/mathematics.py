"""Functions of numbers: roots, logarithms, angles, extremes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.keys import dense_ranks
from pkray.relational.dialect import Dialect
from pkray.relational.functions import coercion
from pkray.relational.functions.conditional import case_of
from pkray.relational.functions.function import (
    Family,
    Resolver,
    Value,
    Written,
    resolve,
    wrong_argument,
)
from pkray.relational.functions.kernels import by_arrow, by_numpy
from pkray.relational.functions.signatures import bigint, double, takes
from pkray.relational.functions.values import as_array, from_numpy, numpy_of
from pkray.relational.plan.expressions import Call, Expression, Literal

MATHEMATICS = Family("mathematics")

# One DOUBLE to one DOUBLE


def _not_positive(number: Any) -> Any:
    return number <= 0


def _cube_root(numbers: np.ndarray) -> np.ndarray:
    """Take cube roots; those of cubes are whole, which numpy leaves to the processor."""
    roots = np.cbrt(numbers)
    whole = np.rint(roots)
    with np.errstate(over="ignore"):
        return np.where(whole * whole * whole == numbers, whole, roots)


_OF_DOUBLES: tuple[tuple[str, str, Any], ...] = (
    ("sqrt", "square root", by_arrow(pc.sqrt)),
    ("cbrt", "cube root", by_numpy(_cube_root)),
    ("exp", "power of e", by_arrow(pc.exp)),
    ("expm1", "power of e, less 1,", by_arrow(pc.expm1)),
    ("sin", "sine", by_arrow(pc.sin)),
    ("cos", "cosine", by_arrow(pc.cos)),
    ("tan", "tangent", by_arrow(pc.tan)),
    ("asin", "arc sine", by_arrow(pc.asin)),
    ("acos", "arc cosine", by_arrow(pc.acos)),
    ("atan", "arc tangent", by_arrow(pc.atan)),
    ("sinh", "hyperbolic sine", by_numpy(np.sinh)),
    ("cosh", "hyperbolic cosine", by_numpy(np.cosh)),
    ("tanh", "hyperbolic tangent", by_numpy(np.tanh)),
    ("asinh", "inverse hyperbolic sine", by_numpy(np.arcsinh)),
    ("acosh", "inverse hyperbolic cosine", by_numpy(np.arccosh)),
    ("atanh", "inverse hyperbolic tangent", by_numpy(np.arctanh)),
    ("sec", "secant", by_numpy(lambda number: 1 / np.cos(number))),
    ("csc", "cosecant", by_numpy(lambda number: 1 / np.sin(number))),
    ("rint", "nearest whole number, of two the even one,", by_numpy(np.rint)),
    ("degrees", "angle in degrees", by_numpy(np.degrees)),
    ("radians", "angle in radians", by_numpy(np.radians)),
    ("cot", "cotangent", by_numpy(lambda number: 1 / np.tan(number))),
)
for _name, _what, _kernel in _OF_DOUBLES:
    MATHEMATICS.infallible.add(
        f"{_name}(number DOUBLE) -> DOUBLE",
        f"Give the {_what} of a number.".replace(", of", " of"),
        takes(double, gives=coercion.DOUBLE),
        _kernel,
    )
_LOGARITHMS: tuple[tuple[str, str, Any], ...] = (
    ("ln", "natural logarithm", by_numpy(np.log, null_where=_not_positive)),
    ("log2", "logarithm to base 2", by_numpy(np.log2, null_where=_not_positive)),
    ("log10", "logarithm to base 10", by_numpy(np.log10, null_where=_not_positive)),
)


def _logarithm(call: Written) -> Expression:
    """Resolve a logarithm; where there is none it is NULL, in flink -Infinity or NaN."""
    (number,) = call.taken(double)
    found = Call(coercion.DOUBLE, call.name, (number,))
    if call.dialect is Dialect.SPARK:
        return found
    zero, least, none = (
        Literal(coercion.DOUBLE.with_nullable(False), each) for each in (0.0, -math.inf, math.nan)
    )
    tests = [resolve(test, (number, zero), call.dialect) for test in ("equal", "less")]
    return case_of(tests, [least, none, found], call.dialect)


for _name, _what, _kernel in _LOGARITHMS:
    MATHEMATICS.infallible.add(
        f"{_name}(number DOUBLE) -> DOUBLE",
        f"Give the {_what}; where there is none NULL, in flink NaN or -Infinity.",
        _logarithm,
        _kernel,
    )
MATHEMATICS.infallible.add(
    "log1p(number DOUBLE) -> DOUBLE",
    "Give the natural logarithm of 1 more than a number; NULL where there is none.",
    takes(double, gives=coercion.DOUBLE, nullable=True),
    by_numpy(np.log1p, null_where=lambda number: number <= -1),
)


def _log(call: Written) -> Expression:
    if len(call.between(1, 2)) == 1:
        return resolve("ln", call.arguments, call.dialect)
    if call.dialect is Dialect.FLINK:
        base, number = (resolve("ln", (each,), call.dialect) for each in call.arguments)
        return resolve("divide", (number, base), call.dialect)
    return takes(double, double, gives=coercion.DOUBLE, nullable=True)(call)


MATHEMATICS.infallible.add(
    "log([base DOUBLE,] number DOUBLE) -> DOUBLE",
    "Give the logarithm to a base, e if there is none; NULL where there is none.",
    _log,
    by_numpy(
        lambda base, number: np.log(number) / np.log(base),
        null_where=lambda base, number: (base <= 0) | (number <= 0),
    ),
)


def _power(base: Any, exponent: Any) -> Any:
    """Raise to a power as Java does: what is uncertain of 1 and -1 is NaN."""
    uncertain = (np.abs(base) == 1) & ~np.isfinite(exponent)
    return np.where(uncertain, np.nan, np.power(base, exponent))


MATHEMATICS.infallible.add(
    "power(base DOUBLE, exponent DOUBLE) -> DOUBLE",
    "Raise a number to a power.",
    takes(double, double, gives=coercion.DOUBLE),
    by_numpy(_power),
    synonyms=("pow",),
)
MATHEMATICS.infallible.add(
    "atan2(y DOUBLE, x DOUBLE) -> DOUBLE",
    "Give the angle of a point.",
    takes(double, double, gives=coercion.DOUBLE),
    by_arrow(lambda y, x: pc.atan2(pc.add(y, 0.0), pc.add(x, 0.0))),
)
MATHEMATICS.infallible.add(
    "hypot(a DOUBLE, b DOUBLE) -> DOUBLE",
    "Give the length of the hypotenuse.",
    takes(double, double, gives=coercion.DOUBLE),
    by_numpy(np.hypot),
)


def _sign(call: Written) -> Expression:
    """Resolve sign: a DOUBLE; in the flink dialect of the number's own type."""
    value = takes(double, gives=coercion.DOUBLE)(call)
    own = call.arguments[0].type
    is_own = call.dialect is Dialect.FLINK and own.root in coercion.NUMBERS
    return coercion.cast_to(value, own) if is_own else value


MATHEMATICS.infallible.add(
    "sign(number) -> DOUBLE (spark), the number's type (flink)",
    "Give -1, 0 or 1 by the sign of a number.",
    _sign,
    lambda call, values, rows: pc.if_else(pc.equal(values[0], 0.0), values[0], pc.sign(values[0])),
    synonyms=("signum",),
)


def _constant(value: float) -> Resolver:
    def resolve(call: Written) -> Expression:
        call.exactly(0)
        return Literal(coercion.DOUBLE.with_nullable(False), value)

    return resolve


MATHEMATICS.alias("pi() -> DOUBLE", "Give π.", _constant(math.pi))
MATHEMATICS.alias("e() -> DOUBLE", "Give e.", _constant(math.e))


# The greatest and the least


def _extreme(call: Written) -> Expression:
    values = coercion.coerced(call.between(2, None), call.dialect, f"arguments of {call.name}")
    if not coercion.has_order(values[0].type):
        raise wrong_argument(call.name, 0, values[0], "values that have an order")
    nullable = all(each.type.nullable for each in values)
    found = Call(values[0].type.with_nullable(nullable), call.name, values)
    if call.dialect is Dialect.SPARK or not coercion.any_nullable(values):
        return found
    missing = tuple(
        Call(coercion.BOOLEAN.with_nullable(False), "is_null", (each,))
        for each in values
        if each.type.nullable
    )
    one = missing[0] if len(missing) == 1 else Call(missing[0].type, "or", missing)
    return case_of([one], [coercion.untyped_null(), found], call.dialect)


def _choose_extreme(call: Call, values: Sequence[Value], rows: int) -> Value:
    if call.type.is_nested:
        return _nested_extreme(call, values, rows)
    compute = pc.max_element_wise if call.function == "greatest" else pc.min_element_wise
    if call.type.root == "BOOLEAN":
        wide = [value.cast(pa.int8()) for value in values]
        return compute(*wide, skip_nulls=True).cast(pa.bool_())
    if call.type.root == "TIMESTAMP_LTZ":  # Arrow compares no zoned times here
        plain = [value.cast(pa.timestamp(value.type.unit)) for value in values]
        return compute(*plain, skip_nulls=True).cast(call.type.arrow)
    result = compute(*values, skip_nulls=True)
    if call.type.root in coercion.FLOATS:
        for value in reversed(values):  # of 0.0 and -0.0 the first
            is_same = pc.fill_null(pc.equal(value, result), False)
            result = pc.if_else(is_same, value, result)
    if call.type.root in coercion.FLOATS and call.function == "greatest":
        for value in values:
            is_nan = pc.fill_null(pc.is_nan(value), False)
            result = pc.if_else(is_nan, pa.scalar(math.nan, result.type), result)
    return result


def _nested_extreme(call: Call, values: Sequence[Value], rows: int) -> Value:
    """Choose among ARRAYs or ROWs by their ranks."""
    every = pa.concat_arrays([as_array(value, rows).cast(call.type.arrow) for value in values])
    ranked = dense_ranks(every) * (-1 if call.function == "greatest" else 1)
    ranked = np.where(np.asarray(every.is_null()), np.iinfo(np.int64).max, ranked)
    chosen = np.argmin(ranked.reshape(len(values), rows), axis=0)
    return every.take(pa.array(chosen * rows + np.arange(rows)))


for _name in ("greatest", "least"):
    MATHEMATICS.infallible.add(
        f"{_name}(value, value, …) -> value",
        f"Give the {_name} value; NULLs are left out.",
        _extreme,
        _choose_extreme,
    )


@MATHEMATICS.infallible.kernel(
    "width_bucket(value DOUBLE, low DOUBLE, high DOUBLE, buckets BIGINT) -> BIGINT",
    "Number the bucket, of equal ones between two bounds, that a value falls into.",
    takes(double, double, double, bigint, gives=coercion.BIGINT, nullable=True),
)
def _width_bucket(call: Call, values: Sequence[Value], rows: int) -> Value:
    value, low, high, count = (numpy_of(each) for each in values)
    with np.errstate(all="ignore"):
        ascending = low < high
        place = np.floor((value - low) / (high - low) * count) + 1
        below = np.where(ascending, value < low, value > low)
        above = np.where(ascending, value >= high, value <= high)
        result = np.where(below, 0, np.where(above, count + 1, place))
        wrong = (count <= 0) | (count == 2**63 - 1) | (low == high) | np.isnan(value)
        wrong = wrong | ~np.isfinite(low) | ~np.isfinite(high)
    numbers = np.where(wrong, 0, result).astype(np.int64)
    array = from_numpy(numbers, values, pa.int64(), rows)
    missing = pa.array(np.broadcast_to(wrong, rows))
    return pc.if_else(missing, pa.scalar(None, pa.int64()), array)
