"""Tells the types a column may change to: those that hold every value of the old one."""

from __future__ import annotations

from pkray.errors import SchemaError, UnsupportedError
from pkray.schema.types import BINARIES, INTEGERS, MAX_LENGTH, STRINGS, TIMESTAMPS, DataType

_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_EXACT_IN = {"FLOAT": ("TINYINT", "SMALLINT"), "DOUBLE": ("TINYINT", "SMALLINT", "INT", "FLOAT")}
_OPEN_ENDED = ("VARCHAR", "STRING", "VARBINARY", "BYTES")


def check_widening(column: str, old: DataType, new: DataType) -> None:
    """Whether a column of type ``old`` may become ``new``; whether it is nullable does not count.

    Raises:
        SchemaError: values could be lost or changed.
        UnsupportedError: a ROW, whose fields change one by one.
    """
    if old.root == "ROW" and new.root == "ROW":
        raise UnsupportedError(
            f"column {column!r} is {old}: change its fields one by one, by names such as "
            f"{column}.field",
            column=column,
        )
    if {old.root, new.root} in ({"ARRAY"}, {"MAP"}):
        _check_part(f"{column}.element", old.element, new.element)
        _check_part(f"{column}.key", old.key, new.key)
        _check_part(f"{column}.value", old.value, new.value)
        return
    if not widens(old, new):
        raise SchemaError(
            f"column {column!r} cannot change from {old.with_nullable(True)} to "
            f"{new.with_nullable(True)}: values could be lost; add a column of the new type and "
            "fill it, or choose a wider type",
            column=column,
            type=str(old),
            value=str(new),
        )


def _check_part(name: str, old: DataType | None, new: DataType | None) -> None:
    if old is None or new is None:
        return
    if old.nullable and not new.nullable:
        raise SchemaError(
            f"{name!r} is nullable and cannot become {new}: rows may hold nulls; leave NOT NULL "
            "out",
            column=name,
            value=str(new),
        )
    check_widening(name, old, new)


def widens(old: DataType, new: DataType) -> bool:
    """Whether every value of a scalar type is one of the other, and compares as before."""
    if old.is_nested or new.is_nested:
        return False
    if old.with_nullable(True) == new.with_nullable(True):
        return True
    if old.root in INTEGERS and new.root in INTEGERS:
        return INTEGERS.index(old.root) <= INTEGERS.index(new.root)
    if new.root in _EXACT_IN:
        return old.root in _EXACT_IN[new.root]
    if new.root == "DECIMAL":
        return _fits_decimal(old, new)
    for family in (STRINGS, BINARIES):
        if old.root in family and new.root in family:
            return new.root in _OPEN_ENDED and (old.length or MAX_LENGTH) <= (
                new.length or MAX_LENGTH
            )
    if old.root == "DATE":
        return new.root == "TIMESTAMP"
    if old.root in (*TIMESTAMPS, "TIME") and old.root == new.root:
        return (old.precision or 0) <= (new.precision or 0)
    return False


def _fits_decimal(old: DataType, new: DataType) -> bool:
    if old.root in INTEGERS:
        whole, scale = _DIGITS[old.root], 0
    elif old.root == "DECIMAL":
        scale = old.scale or 0
        whole = (old.precision or 0) - scale
    else:
        return False
    return (new.scale or 0) >= scale and (new.precision or 0) - (new.scale or 0) >= whole
