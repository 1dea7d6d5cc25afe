"""Signs of numbers."""

from collections.abc import Sequence

import pyarrow.compute as pc

from pkray.relational.dialect import Dialect
from pkray.relational.functions.coercion import FLOATS
from pkray.relational.functions.function import Family, Value, Written
from pkray.relational.functions.numbers.operators import WRAPPING, low_bits, widened
from pkray.relational.functions.signatures import number, takes
from pkray.relational.functions.values import checked
from pkray.relational.plan.expressions import Call, Expression
from pkray.schema.types import INTEGERS

ARITHMETIC = Family("arithmetic")

# One number


def _one_number(call: Written) -> Expression:
    if call.dialect is Dialect.FLINK and any(a.type.root in INTEGERS for a in call.arguments[:1]):
        call = call._replace(name=call.name + WRAPPING)
    return takes(number, gives=lambda arguments: arguments[0].type)(call)


_COMPUTES = {"negative": (pc.negate, pc.negate_checked), "abs": (pc.abs, pc.abs_checked)}


def _computed(call: Call, values: Sequence[Value], rows: int) -> Value:
    plain, exact = _COMPUTES[call.function.removesuffix(WRAPPING)]
    if call.type.root in (*FLOATS, "DECIMAL"):
        return plain(values[0])
    compute = plain if call.function.endswith(WRAPPING) else exact
    return checked(call, values, rows, compute, f"overflows {call.type.root}")


def _spark_one_wrapping(call: Call, arguments: Sequence[str]) -> str:
    name = call.function.removesuffix(WRAPPING)
    return low_bits(f"{name}({widened(arguments[0])})", call.type)


def _minus(call: Call, arguments: Sequence[str]) -> str:
    return f"(- {arguments[0]})"


for _name, _usage, _about, _spark in (
    ("negative", "- number -> number", "Turn the sign of a number.", _minus),
    ("abs", "abs(number) -> number", "Give a number without its sign.", None),
):
    ARITHMETIC.add(_usage, _about, _one_number, _computed, spark=_spark, name=_name)
    ARITHMETIC.infallible.add_inner(
        _name + WRAPPING,
        f"{_about[:-1]}; the least integer stays.",
        _computed,
        lambda arguments: arguments[0].type,
        spark=_spark_one_wrapping,
    )


def _resolve_positive(call: Written) -> Expression:
    (value,) = call.taken(number)
    return value


@ARITHMETIC.infallible.kernel(
    "+ number -> number", "Give a number as it is.", _resolve_positive, name="positive"
)
def _as_given(call: Call, values: Sequence[Value], rows: int) -> Value:
    return values[0]
