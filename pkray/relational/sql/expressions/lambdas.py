"""Type the parameters of a lambda, by the function that takes it."""

from __future__ import annotations

from collections.abc import Sequence

from pkray.errors import QueryError
from pkray.relational.functions.coercion import INT
from pkray.relational.plan.expressions import Expression
from pkray.schema.types import DataType

_OF_ELEMENTS = ("transform", "filter", "exists", "forall", "any_match", "all_match")
_OF_ENTRIES = ("map_filter", "transform_keys", "transform_values")
_FOLDS = ("aggregate", "reduce")


def parameter_types(
    function: str, before: Sequence[Expression], count: int
) -> tuple[DataType, ...]:
    """Find the types of a lambda's parameters.

    Args:
        function: as written.
        before: the arguments before the lambda.
        count: how many parameters it has.

    Raises:
        QueryError: the function takes no lambda there, or one of other parameters.
    """
    name = function.lower()
    known = _known(name, before)
    if known is None:
        raise QueryError(f"{name} takes no lambda here", function=name)
    if not 0 < count <= len(known):
        raise QueryError(
            f"the lambda of {name} has {count} parameters; it takes {len(known)}", function=name
        )
    return known[:count]


def _known(name: str, before: Sequence[Expression]) -> tuple[DataType, ...] | None:
    types = [argument.type for argument in before]
    element = types[0].element if types else None
    if name in _OF_ELEMENTS and element:
        return (element, INT.with_nullable(False))
    if name in _FOLDS and element and len(types) >= 2:
        start = types[1].with_nullable(True)
        return (start, element) if len(types) == 2 else (start,)
    if name in _OF_ENTRIES and types and types[0].key and types[0].value:
        return (types[0].key, types[0].value)
    if name == "array_sort" and element:
        return (element, element)
    if name == "zip_with" and len(types) == 2 and element and types[1].element:
        return (element.with_nullable(True), types[1].element.with_nullable(True))
    if name == "map_zip_with" and len(types) == 2 and types[0].key and types[1].value:
        assert types[0].value is not None
        values = (types[0].value.with_nullable(True), types[1].value.with_nullable(True))
        return (types[0].key, *values)
    return None
