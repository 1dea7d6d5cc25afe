"""Arguments and types of functions of nested values."""

from collections.abc import Sequence
from typing import TypeAlias

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import coercion
from pkray.relational.functions.function import Family, Typing, Value, Written, typed_call
from pkray.relational.functions.signatures import of_types, parameter
from pkray.relational.plan.expressions import Call, Expression
from pkray.schema.types import INTEGERS, DataType

NESTED = Family("nested")
Values: TypeAlias = Sequence[Value]
SPARK, FLINK = Dialect.SPARK, Dialect.FLINK


def element_of(argument: Expression) -> DataType:
    """Give the type of an array's elements."""
    assert argument.type.element is not None
    return argument.type.element


def array_type(element: DataType, nullable: bool) -> DataType:
    """Make the type of an array."""
    return DataType("ARRAY", nullable, element=element)


def map_type(key: DataType, value: DataType, nullable: bool) -> DataType:
    """Make the type of a map; its keys are never NULL."""
    return DataType("MAP", nullable, key=key.with_nullable(False), value=value)


def key_of(argument: Expression) -> DataType:
    """Give the type of a map's keys."""
    assert argument.type.key is not None
    return argument.type.key.with_nullable(False)


def value_of(argument: Expression) -> DataType:
    """Give the type of a map's values."""
    assert argument.type.value is not None
    return argument.type.value


def typed_as_first(arguments: tuple[Expression, ...]) -> DataType:
    """Give the type of the first argument."""
    return arguments[0].type.with_nullable(coercion.any_nullable(arguments))


def without_nulls(arguments: tuple[Expression, ...]) -> DataType:
    """Give the type of the first argument, an array, with elements that are never NULL."""
    return array_type(element_of(arguments[0]).with_nullable(False), arguments[0].type.nullable)


def typed_as_element(nullable: bool = False) -> Typing:
    """Give the type of the first argument's elements."""

    def typing(arguments: tuple[Expression, ...]) -> DataType:
        kind = element_of(arguments[0])
        return kind.with_nullable(nullable or kind.nullable or coercion.any_nullable(arguments))

    return typing


ARRAY = of_types("an ARRAY", "ARRAY")
MAP = of_types("a MAP", "MAP")
ARRAY_OR_MAP = of_types("an ARRAY or a MAP", "ARRAY", "MAP")
ROW = of_types("a ROW", "ROW")
INTEGER = of_types("an integer", *INTEGERS, null=True)


@parameter("an integer")
def element_place(argument: Expression, dialect: Dialect) -> Expression | None:
    """Take a place of an element."""
    taken = INTEGER.cast(argument, dialect)
    return None if taken is None else coercion.cast_to(taken, coercion.INT)


def takes_element(call: Written) -> Expression:
    """Resolve a function of an array and a value that its elements are compared with."""
    return typed_call(call.name, *with_element(call))


def with_element(call: Written) -> tuple[Expression, Expression]:
    """Bring the elements of the first argument, an array, and the second to one type."""
    array, value = call.exactly(2)
    ARRAY.taken(call, 0)
    element = element_of(array)
    coercion.check_texts(call.name, array, Call(array_type(value.type, True), "array", (value,)))
    kind: DataType | None = element
    if not coercion.is_untyped_null(value):
        kind = coercion.wider(element, value.type, call.dialect)
    if kind is None:
        raise QueryError(
            f"{call.name} compares elements of {element} with {value.type}; cast one of them",
            function=call.name,
        )
    if kind.with_nullable(True) != element.with_nullable(True):
        array = coercion.cast_to(array, array_type(kind.with_nullable(element.nullable), True))
    return array, coercion.cast_to(value, kind)
