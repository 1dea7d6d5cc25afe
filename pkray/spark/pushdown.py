"""Filters that Spark pushes down, as a table's predicate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pkray.scan.predicate import Predicate
from pkray.scan.pushed import pushed, with_pushed
from pkray.schema.table_schema import TableSchema

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_OPERATORS = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "In": "in",
}
"""By the name of Spark's class: Spark 4.0 has none of them, and pushes nothing down."""


def narrowed(
    predicate: Predicate | None, filters: Sequence[Filter], schema: TableSchema
) -> Predicate | None:
    """Return the predicate and, of the filters, what can prune."""
    return with_pushed(predicate, (_predicate(each, schema) for each in filters))


def _predicate(one: Filter, schema: TableSchema) -> Predicate | None:
    operator = _OPERATORS.get(type(one).__name__)
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if operator is None or len(path) != 1:
        return None
    return pushed(path[0], operator, one.value, schema)  # type: ignore[attr-defined]
