"""Functions that make rows, and read their fields."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import QueryError
from pkray.relational.functions.function import Value, Written, typed_call
from pkray.relational.functions.nested.arguments import FLINK, NESTED, ROW, SPARK, Values
from pkray.relational.functions.signatures import text_literal
from pkray.relational.functions.values import as_array
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import DataField, DataType

NAMED = "named"
"""What a field of STRUCT(…) is given as: ``named(name, value)``; it never stands in a plan."""


def _struct(call: Written) -> Expression:
    """Resolve struct(a, b AS c), row(a, b): fields are called as columns, else col1, col2 …."""
    flink_names = call.dialect is FLINK and call.name == "row"
    parts: list[Expression] = []
    for place, each in enumerate(call.arguments):
        if isinstance(each, Call) and each.function == NAMED:
            parts += each.arguments
            continue
        plain = f"EXPR${place}" if flink_names else f"col{place + 1}"
        parts += [text_literal(plain), each]
    return _named_struct(call._replace(arguments=tuple(parts)))


def _named_struct(call: Written) -> Expression:
    name = "named_struct"
    if not call.arguments or len(call.arguments) % 2:
        raise QueryError(f"{name} takes names and values in pairs", function=name)
    for each in call.arguments[::2]:
        if not isinstance(each, Literal) or not isinstance(each.value, str):
            raise QueryError(f"the names of {name} must be constant text", function=name)
    return typed_call(name, *call.arguments)


def _type_of_struct(arguments: tuple[Expression, ...]) -> DataType:
    pairs = zip(arguments[::2], arguments[1::2], strict=True)
    fields = [
        DataField(place, str(getattr(name, "value", "")), value.type)
        for place, (name, value) in enumerate(pairs)
    ]
    return DataType("ROW", False, fields=tuple(fields))


def _type_of_field(arguments: tuple[Expression, ...]) -> DataType:
    row, name = arguments
    found = [each.type for each in row.type.fields or () if each.name == getattr(name, "value", "")]
    return found[0].with_nullable(found[0].nullable or row.type.nullable)


def field(call: Written) -> Expression:
    """Resolve field(row, 'name'); the spark dialect finds names whatever their case."""
    row, said = call.exactly(2)
    ROW.taken(call, 0)
    if not isinstance(said, Literal) or not isinstance(said.value, str):
        raise QueryError("a field of a ROW is named by constant text", function="field")
    names = [each.name for each in row.type.fields or ()]
    found = [name for name in names if name == said.value]
    if not found and call.dialect is SPARK:
        found = [name for name in names if name.lower() == said.value.lower()]
    if not found:
        raise QueryError(
            f"the ROW has no field {said.value!r}; it has {', '.join(names)}", function="field"
        )
    if len(found) > 1:
        raise QueryError(f"{said.value!r} is ambiguous: {', '.join(found)}", function="field")
    return typed_call("field", row, text_literal(found[0]))


def _field_spark(call: Call, arguments: Sequence[str]) -> str:
    name = call.arguments[1]
    assert isinstance(name, Literal)
    return f"{arguments[0]}.`{str(name.value).replace('`', '``')}`"


@NESTED.infallible.kernel(
    "row.name -> type of the field",
    "Give a field of a row.",
    field,
    _type_of_field,
    _field_spark,
    name="field",
)
def _field_kernel(call: Call, values: Values, rows: int) -> Value:
    name = values[1].as_py()
    names = [each.name for each in call.arguments[0].type.fields or ()]
    # Takes the row's own NULLs along.
    return pc.struct_field(as_array(values[0], rows), [names.index(name)])


@NESTED.infallible.kernel(
    "named_struct('name', value, …) -> ROW", "Make a row.", _named_struct, _type_of_struct
)
def _struct_kernel(call: Call, values: Values, rows: int) -> Value:
    kind = call.type.arrow
    parts = [as_array(value, rows) for value in values[1::2]]
    return pa.StructArray.from_arrays(parts, fields=[kind.field(i) for i in range(len(parts))])


NESTED.alias("struct(value [AS name], …) -> ROW", "Make a row.", _struct)
NESTED.alias("row(value, …) -> ROW", "Make a row.", _struct)
