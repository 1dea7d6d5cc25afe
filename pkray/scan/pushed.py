"""Filters that engines push down to a read, as a predicate that prunes."""

from collections.abc import Iterable

from pkray.errors import PkrayError
from pkray.scan.conditions import AllOf
from pkray.scan.predicate import Predicate
from pkray.schema.table_schema import TableSchema

_EXACT = frozenset(
    ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "CHAR", "VARCHAR", "STRING", "DATE")
)
"""Types whose values engines have as they are: they round TIMESTAMP(9), and widen FLOAT."""


def pushed(column: str, operator: str, value: object, schema: TableSchema) -> Predicate | None:
    """Make a predicate of a comparison with a literal; None where it is to prune nothing.

    Args:
        operator: ``=``, ``<``, ``<=``, ``>``, ``>=`` or ``in``, whose value is a list.
    """
    if column not in schema.names or schema.field(column).type.root not in _EXACT:
        return None
    if isinstance(value, list | tuple):
        value = [each for each in value if each is not None]
    if value is None or value == []:
        return None
    try:
        return Predicate.parse([(column, operator, value)], schema)
    except PkrayError:
        return None


def with_pushed(predicate: Predicate | None, more: Iterable[Predicate | None]) -> Predicate | None:
    """Give the predicate for which all of these are true, leaving out those that are None."""
    parts = [each for each in (predicate, *more) if each is not None]
    if len(parts) < 2:
        return parts[0] if parts else None
    return Predicate(AllOf(tuple(part.condition for part in parts)))
