"""Filters that Spark pushes down, as a table's predicate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pkray.errors import PkrayError
from pkray.scan.conditions import AllOf
from pkray.scan.predicate import Predicate
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
_EXACT = frozenset(
    ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "CHAR", "VARCHAR", "STRING", "DATE")
)
"""Types that are the same in Spark: it sees TIMESTAMP(9) rounded, and FLOAT as wider literals."""


def narrowed(
    predicate: Predicate | None, filters: Sequence[Filter], schema: TableSchema
) -> Predicate | None:
    """Return the predicate and, of the filters, what can prune."""
    parts = [predicate] if predicate is not None else []
    parts += [pushed for one in filters if (pushed := _predicate(one, schema)) is not None]
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    return Predicate(AllOf(tuple(part.condition for part in parts)))


def _predicate(one: Filter, schema: TableSchema) -> Predicate | None:
    operator = _OPERATORS.get(type(one).__name__)
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if operator is None or len(path) != 1 or path[0] not in schema.names:
        return None
    if schema.field(path[0]).type.root not in _EXACT:
        return None
    value = one.value  # type: ignore[attr-defined]
    if operator == "in":
        value = [each for each in value if each is not None]
    if value is None or value == []:
        return None
    try:
        return Predicate.parse([(path[0], operator, value)], schema)
    except PkrayError:
        return None
