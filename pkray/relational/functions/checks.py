"""Functions that check values, and one that names types."""

from collections.abc import Sequence

import pyarrow as pa

from pkray.errors import EvaluationError, UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.coercion import BOOLEAN, INT, STRING, cast_to, untyped_null
from pkray.relational.functions.conditional import case_of
from pkray.relational.functions.function import Family, Value, Written, wrong_argument
from pkray.relational.functions.signatures import boolean, takes, text
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import DataType

CONDITIONAL = Family("conditional")
NESTED = Family("nested")


def _raised(message: str) -> Expression:
    said = Literal(STRING.with_nullable(False), message)
    return Call(STRING, "raise_error", (said,))


@CONDITIONAL.kernel(
    "raise_error(message) -> STRING",
    "Stop the query with a message.",
    takes(text, gives=STRING, nullable=True),
    spark=lambda call, arguments: f"CAST(raise_error({arguments[0]}) AS STRING)",
    deterministic=False,
)
def _raise(call: Call, values: Sequence[Value], rows: int) -> Value:
    if rows:
        said = values[0] if isinstance(values[0], pa.Scalar) else values[0][0]
        raise EvaluationError(str(said.as_py()), function="raise_error", row=0)
    return pa.nulls(0, pa.string())


def _assert_true(call: Written) -> Expression:
    call.between(1, 2)
    condition = boolean.taken(call, 0)
    failure = _raised("the condition of assert_true is not true")
    if len(call.arguments) > 1:
        failure = function.resolve("raise_error", call.arguments[1:], call.dialect)
    holds = function.resolve(
        "not_distinct", (condition, Literal(BOOLEAN.with_nullable(False), True)), call.dialect
    )
    return case_of([holds], [untyped_null(), failure], call.dialect)


CONDITIONAL.alias(
    "assert_true(condition [, message]) -> STRING",
    "Stop the query where a condition is not true; NULL elsewhere.",
    _assert_true,
)


def _spark_name(kind: DataType) -> str:
    match kind.root:
        case "ARRAY":
            return f"array<{_spark_name(kind.element)}>" if kind.element else "array"
        case "MAP":
            assert kind.key is not None
            assert kind.value is not None
            return f"map<{_spark_name(kind.key)},{_spark_name(kind.value)}>"
        case "ROW":
            inside = (f"{each.name}:{_spark_name(each.type)}" for each in kind.fields or ())
            return f"struct<{','.join(inside)}>"
        case "DECIMAL":
            return f"decimal({kind.precision},{kind.scale})"
        case "TIME":
            return f"time({kind.precision})"
    return _SPARK_NAMES.get(kind.root, kind.root.lower())


_SPARK_NAMES = {
    "TIMESTAMP": "timestamp_ntz",
    "TIMESTAMP_LTZ": "timestamp",
    "CHAR": "string",
    "VARCHAR": "string",
    "BYTES": "binary",
    "VARBINARY": "binary",
}


def _typeof(call: Written) -> Expression:
    (value,) = call.exactly(1)
    kind = value.type
    said = str(kind) if call.dialect is Dialect.FLINK else _spark_name(kind)
    return Literal(STRING.with_nullable(False), said)


CONDITIONAL.alias("typeof(x) -> STRING", "Name the type of a value.", _typeof)


def _element(call: Written) -> Expression:
    (array,) = call.exactly(1)
    if array.type.root != "ARRAY":
        raise wrong_argument("element", 0, array, "an ARRAY")
    size = function.resolve("array_size", (array,), call.dialect)
    one = Literal(size.type.with_nullable(False), 1)
    first = Literal(INT.with_nullable(False), 1)
    too_many = function.resolve("greater", (size, one), call.dialect)
    element = function.resolve("try_element_at", (array, first), call.dialect)
    failure = cast_to(_raised("element is of an ARRAY with more than one element"), element.type)
    return case_of([too_many], [failure, element], call.dialect)


NESTED.only(Dialect.FLINK).alias(
    "element(ARRAY) -> element",
    "Give the one element of an array; NULL of an empty one, a failure of a longer one.",
    _element,
)


_REMEDIES = {
    "hash_code": "write hash(x), which is the same everywhere",
    "multiset": "there is no MULTISET type; write ARRAY[…]",
}


def _refused(call: Written) -> Expression:
    name = call.name.upper()
    raise UnsupportedError(f"{name} is not offered: {_REMEDIES[call.name]}", function=name)


for _name, _remedy in _REMEDIES.items():
    CONDITIONAL.only(Dialect.FLINK).alias(f"{_name}(…)", f"Is refused: {_remedy}.", _refused)
