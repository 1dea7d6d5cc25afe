"""The types that a column may change to, and its values then.

Source: Apache Paimon's casts when it reads files of an older schema.
"""

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import SchemaChangedError, SchemaError, UnsupportedError
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


Convert: TypeAlias = Callable[[pa.Array], pa.Array]

_FLOATS = ("FLOAT", "DOUBLE")
_PLAIN_TEXT = (*INTEGERS, "BOOLEAN", "DATE")


def converter(old: DataType, new: DataType, column: str, *, is_older: bool) -> Convert | None:
    """Make what turns an array of one type into the other; None where it is that already.

    Args:
        is_older: ``old`` is of an older schema. Otherwise the reader's schema is out of date, and
            values that do not fit are an error instead of being cut.

    Raises:
        UnsupportedError: there is no conversion.
    """
    if old.fields is not None and new.fields is not None:
        return _of_row(old, new, column, is_older)
    if old.root == new.root and old.element is not None and new.element is not None:
        return _of_list(old, new, column, is_older)
    if old.root == new.root == "MAP":
        return _of_map(old, new, column, is_older)
    if old.is_nested or new.is_nested:
        raise _none(old, new, column)
    return _of_scalar(old, new, column, is_older)


def _of_scalar(old: DataType, new: DataType, column: str, is_older: bool) -> Convert | None:
    if old.root in STRINGS and new.root in STRINGS:
        return _of_text(old, new, column)
    if old.root in BINARIES and new.root in BINARIES:
        if (new.length or old.length) != old.length and (new.length or 0) < (old.length or 2**31):
            raise _none(old, new, column)
        return None
    if old.arrow.equals(new.arrow):
        if old.with_nullable(True) == new.with_nullable(True) or _more_digits(old, new):
            return None
        raise _none(old, new, column)
    if not _is_castable(old, new):
        raise _none(old, new, column)
    # Whole numbers lose their upper digits in Paimon, and floating ones round.
    cuts = (old.root in INTEGERS and new.root in INTEGERS) or new.root in _FLOATS
    return _Cast(old, new, column, is_older, safe=not (cuts and is_older))


def _more_digits(old: DataType, new: DataType) -> bool:
    timed = old.root == new.root and old.root in (*TIMESTAMPS, "TIME")
    return timed and (old.precision or 0) <= (new.precision or 0)


def _is_castable(old: DataType, new: DataType) -> bool:
    numbers = (*INTEGERS, *_FLOATS, "DECIMAL")
    if old.root in numbers and new.root in numbers:
        return old.root not in _FLOATS or new.root in _FLOATS
    if new.root in ("STRING", "VARCHAR"):
        return old.root in _PLAIN_TEXT and new.root == "STRING"
    if old.root == "DATE":
        return new.root == "TIMESTAMP"
    return old.root == new.root and _more_digits(old, new)


def _of_text(old: DataType, new: DataType, column: str) -> Convert | None:
    if new.length is None or (old.length is not None and old.length <= new.length):
        if new.root == "CHAR" and old != new and old.with_nullable(True) != new.with_nullable(True):
            raise _none(old, new, column)
        return None
    if new.root == "CHAR":
        raise _none(old, new, column)
    length = new.length
    return lambda values: pc.utf8_slice_codeunits(values, 0, length)


class _Cast:
    """One scalar type to another."""

    def __init__(
        self, old: DataType, new: DataType, column: str, is_older: bool, *, safe: bool
    ) -> None:
        self._old = old
        self._new = new
        self._column = column
        self._is_older = is_older
        self._safe = safe

    def __call__(self, values: pa.Array) -> pa.Array:
        if self._new.root == "DECIMAL" and self._old.root in INTEGERS:
            # Arrow asks decimal128 for room for every int64, whatever the values are.
            values = values.cast(pa.decimal256(76, self._new.scale))
        try:
            return pc.cast(values, self._new.arrow, safe=self._safe)
        except pa.ArrowInvalid as error:
            if self._is_older:
                raise UnsupportedError(
                    f"column {self._column!r} was {self._old} and is {self._new} now, and a value "
                    f"of an older file does not fit ({error}): change its type back",
                    column=self._column,
                    type=str(self._old),
                ) from error
            raise SchemaChangedError(
                f"column {self._column!r} is {self._old} now, and a value does not fit {self._new} "
                f"({error}): load the table again",
                column=self._column,
                type=str(self._old),
            ) from error


def _of_row(old: DataType, new: DataType, column: str, is_older: bool) -> Convert | None:
    by_id = {field.id: (place, field) for place, field in enumerate(old.fields or ())}
    parts: list[tuple[pa.Field, int | None, Convert | None]] = []
    for field in new.fields or ():
        place, was = by_id.get(field.id, (None, None))
        convert = None
        if was is not None:
            convert = converter(was.type, field.type, f"{column}.{field.name}", is_older=is_older)
        parts.append((field.arrow, place, convert))
    if old.arrow.equals(new.arrow) and all(
        place == position and convert is None for position, (_, place, convert) in enumerate(parts)
    ):
        return None

    def convert_rows(values: pa.Array) -> pa.Array:
        arrays = []
        for field, place, convert in parts:
            if place is None:
                arrays.append(pa.nulls(len(values), field.type))
            else:
                part = values.field(place)
                arrays.append(part if convert is None else convert(part))
        mask = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays(arrays, fields=[part[0] for part in parts], mask=mask)

    return convert_rows


def _of_list(old: DataType, new: DataType, column: str, is_older: bool) -> Convert | None:
    assert old.element is not None
    assert new.element is not None
    convert = converter(old.element, new.element, f"{column}.element", is_older=is_older)
    if convert is None and old.arrow.equals(new.arrow):
        return None

    def convert_lists(values: pa.Array) -> pa.Array:
        elements = values.values if convert is None else convert(values.values)
        return _rebuilt(values, new.arrow, elements)

    return convert_lists


def _of_map(old: DataType, new: DataType, column: str, is_older: bool) -> Convert | None:
    keys, items = (
        converter(getattr(old, part), getattr(new, part), f"{column}.{part}", is_older=is_older)
        for part in ("key", "value")
    )
    if keys is None and items is None and old.arrow.equals(new.arrow):
        return None

    def convert_maps(values: pa.Array) -> pa.Array:
        parts = [
            values.keys if keys is None else keys(values.keys),
            values.items if items is None else items(values.items),
        ]
        fields = [new.arrow.key_field, new.arrow.item_field]
        return _rebuilt(values, new.arrow, pa.StructArray.from_arrays(parts, fields=fields))

    return convert_maps


def _rebuilt(values: pa.Array, arrow: pa.DataType, children: pa.Array) -> pa.Array:
    """Lists or maps of the same lengths and nulls, with other content."""
    buffers = values.buffers()[:2]
    return pa.Array.from_buffers(
        arrow, len(values), buffers, offset=values.offset, children=[children]
    )


def _none(old: DataType, new: DataType, column: str) -> UnsupportedError:
    return UnsupportedError(
        f"column {column!r} was {old} in older files and is {new} now: reading them as that is "
        f"not supported; change its type back to {old}",
        column=column,
        type=str(old),
        value=str(new),
    )
