"""Fit values to a column: those of its type, and those that are made one without a CAST."""

from pkray.errors import QueryError
from pkray.relational.functions.casts.casting import can_cast
from pkray.relational.functions.coercion import cast_to
from pkray.relational.plan.expressions import Expression
from pkray.schema.types import STRINGS, DataType

_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE")
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ")


def assigned(value: Expression, kind: DataType, target: str) -> Expression:
    """Cast a value to a column's type, by the rules of assignment.

    Args:
        target: the column's name.

    Raises:
        QueryError: the column does not take it.
    """
    source = value.type
    if source.with_nullable(True) == kind.with_nullable(True):
        return value
    if source.span or not can_cast(source, kind) or not _is_assignable(source.root, kind.root):
        raise QueryError(
            f"column {target!r} is {kind.with_nullable(True)}: it does not take "
            f"{source.with_nullable(True)}; write a CAST",
            column_name=target,
        )
    return cast_to(value, kind.with_nullable(source.nullable))


def _is_assignable(source: str, target: str) -> bool:
    if source == target or target in STRINGS:
        return True
    if source in STRINGS:
        return False
    return any(source in kinds and target in kinds for kinds in (_NUMBERS, _TIMES)) or (
        source.endswith(("BINARY", "BYTES")) and target.endswith(("BINARY", "BYTES"))
    )
