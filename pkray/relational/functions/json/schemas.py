"""The schema that an example has, written as Spark writes types."""

import json
import re
from collections.abc import Iterable
from typing import Any, TypeAlias

from pkray.errors import QueryError
from pkray.relational.functions.function import Written
from pkray.relational.functions.json.functions import JSON
from pkray.relational.functions.signatures import constant_text, text_literal
from pkray.relational.plan.expressions import Expression

Shape: TypeAlias = "str | int | list[Shape] | dict[str, Shape]"
"""BIGINT and the like; the digits of a DECIMAL; a list of what elements are; fields."""
NOTHING = "NULL"
_MOST_DIGITS = 38


def integer_shape(number: int) -> Shape:
    """Give the type of an integer: DOUBLE where even DECIMAL has too few digits."""
    if -(1 << 63) <= number < 1 << 63:
        return "BIGINT"
    digits = len(str(abs(number)))
    return digits if digits <= _MOST_DIGITS else "DOUBLE"


def shape_of(value: Any) -> Shape:
    """Give what a value of JSON is."""
    match value:
        case None:
            return NOTHING
        case bool():
            return "BOOLEAN"
        case int():
            return integer_shape(value)
        case float():
            return "DOUBLE"
        case list():
            return [merged(map(shape_of, value))]
        case dict():
            return {name: shape_of(each) for name, each in value.items()}
    return "STRING"


def merged(shapes: Iterable[Shape]) -> Shape:
    """Give what all are; text where they have nothing else in common."""
    found: Shape = NOTHING
    for each in shapes:
        found = _either(found, each)
    return found


def _either(one: Shape, other: Shape) -> Shape:
    if one == other or other == NOTHING:
        return one
    if one == NOTHING:
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        names = {**one, **other}
        return {name: _either(one.get(name, NOTHING), other.get(name, NOTHING)) for name in names}
    if isinstance(one, list) and isinstance(other, list):
        return [_either(one[0], other[0])]
    numbers = [each for each in (one, other) if each in ("BIGINT", "DOUBLE") or type(each) is int]
    if len(numbers) < 2:
        return "STRING"
    if "DOUBLE" in numbers:
        return "DOUBLE"
    return max(20 if each == "BIGINT" else int(str(each)) for each in numbers)


def type_of_shape(shape: Shape) -> str:
    """Write a shape as a type."""
    match shape:
        case dict():
            fields = (f"{_name(name)}: {type_of_shape(shape[name])}" for name in sorted(shape))
            return f"STRUCT<{', '.join(fields)}>"
        case list():
            return f"ARRAY<{type_of_shape(shape[0])}>"
        case int():
            return f"DECIMAL({shape},0)"
    return "STRING" if shape == NOTHING else shape


def _name(name: str) -> str:
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return name
    return "`" + name.replace("`", "``") + "`"


def _constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _schema_of_json(call: Written) -> Expression:
    (example,) = call.exactly(1)
    text = constant_text(call.name, example, "the example")
    try:
        value = json.loads(text, parse_constant=_constant) if text.strip() else None
    except (ValueError, RecursionError) as error:
        raise QueryError(
            f"the example of {call.name} is no JSON: {error}", function=call.name
        ) from None
    return text_literal(type_of_shape(shape_of(value)))


JSON.alias(
    "schema_of_json(example) -> STRING",
    "Give the schema that JSON such as a constant example has, for from_json.",
    _schema_of_json,
)
