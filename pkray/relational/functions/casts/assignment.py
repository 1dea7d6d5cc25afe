"""Fit values to a column: those of its type, and those that are made one without a CAST."""

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.casts.casting import can_cast
from pkray.relational.functions.coercion import INT, cast_to
from pkray.relational.functions.conditional import case_of
from pkray.relational.functions.function import resolve
from pkray.relational.plan.expressions import Expression, Literal
from pkray.schema.types import MAX_LENGTH, STRINGS, DataType

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


def assigned_whole(value: Expression, kind: DataType, target: str) -> Expression:
    """Cast as `assigned` does, but cut nothing: who writes values refuses those that are too long.

    Args:
        target: the column's name.

    Raises:
        QueryError: the column does not take it.
    """
    if kind.length is None or (value.type.length or MAX_LENGTH) <= kind.length:
        return assigned(value, kind, target)
    root = "STRING" if kind.root in STRINGS else "BYTES"
    whole = assigned(value, DataType(root, kind.nullable), target)
    if kind.root != "CHAR":
        return whole
    length = resolve("char_length", (whole,), Dialect.SPARK)
    most = Literal(INT.with_nullable(False), kind.length)
    fits = resolve("less_equal", (length, most), Dialect.SPARK)
    filled = cast_to(whole, kind.with_nullable(whole.type.nullable))
    return case_of([fits], [filled, whole], Dialect.SPARK)


def _is_assignable(source: str, target: str) -> bool:
    if source == target or target in STRINGS:
        return True
    if source in STRINGS:
        return False
    return any(source in kinds and target in kinds for kinds in (_NUMBERS, _TIMES)) or (
        source.endswith(("BINARY", "BYTES")) and target.endswith(("BINARY", "BYTES"))
    )
