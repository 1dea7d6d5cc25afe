"""Python values as a column: every one is kept as it is, or refused."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pkray.errors import InputError
from pkray.schema.casts import cast_column
from pkray.schema.types import TIMESTAMPS, DataType

_WITH_CARE = (*TIMESTAMPS, "DATE", "TIME", "DECIMAL", "MAP", "ROW")
"""Types whose values Arrow, left to itself, would cut or drop parts of, or would not take."""


def to_column(values: Sequence[Any], data_type: DataType, name: str) -> pa.ChunkedArray:
    """Convert the values, None for nulls, to the canonical Arrow type of ``data_type``.

    Raises:
        InputError: a value that is none of the type or does not fit it; it names the column, the
            row and the value. Of nested values, rows are those of the part named.
    """
    column = pa.chunked_array([_array(values, data_type, name)])
    return cast_column(column, data_type, name, rounding=True)


def nanoseconds(root: str) -> pa.DataType:
    """Return Arrow's type of a TIMESTAMP or TIMESTAMP_LTZ in nanoseconds."""
    return pa.timestamp("ns", "UTC" if root == "TIMESTAMP_LTZ" else None)


def _array(values: Sequence[Any], data_type: DataType, name: str) -> pa.Array:
    if all(value is None for value in values):
        return pa.nulls(len(values), data_type.arrow)
    if data_type.root == "MAP":
        return _map(values, data_type, name)
    if data_type.root == "ROW":
        return _struct(values, data_type, name)
    if data_type.root == "ARRAY" and _takes_care(data_type):
        return _list(values, data_type, name)
    return _scalars(values, data_type, name)


def _takes_care(data_type: DataType) -> bool:
    element = data_type.element
    return data_type.root in _WITH_CARE if element is None else _takes_care(element)


def _list(values: Sequence[Any], data_type: DataType, name: str) -> pa.Array:
    offsets: list[int | None] = []
    parts: list[Any] = []
    for row, value in enumerate(values):
        if value is None:
            offsets.append(None)
            continue
        if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
            raise _unlike(value, data_type, name, row)
        offsets.append(len(parts))
        parts.extend(value)
    assert data_type.element is not None
    elements = _array(parts, data_type.element, f"{name}[]")
    return pa.ListArray.from_arrays(pa.array([*offsets, len(parts)], pa.int32()), elements)


def _map(values: Sequence[Any], data_type: DataType, name: str) -> pa.Array:
    offsets: list[int | None] = []
    keys: list[Any] = []
    items: list[Any] = []
    for row, value in enumerate(values):
        if value is None:
            offsets.append(None)
            continue
        offsets.append(len(keys))
        if not isinstance(value, Iterable):
            raise _unlike(value, data_type, name, row)
        pairs = list(value.items() if isinstance(value, Mapping) else value)
        if not all(_is_pair(pair) for pair in pairs):
            raise _unlike(value, data_type, name, row)
        keys += [key for key, _ in pairs]
        items += [item for _, item in pairs]
    assert data_type.key is not None
    assert data_type.value is not None
    return pa.MapArray.from_arrays(
        pa.array([*offsets, len(keys)], pa.int32()),
        _array(keys, data_type.key, f"{name} (keys)"),
        _array(items, data_type.value, f"{name} (values)"),
    )


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and value[0] is not None


def _struct(values: Sequence[Any], data_type: DataType, name: str) -> pa.Array:
    given: dict[str, None] = {}
    for row, value in enumerate(values):
        if value is None:
            continue
        if not isinstance(value, Mapping):
            raise _unlike(value, data_type, name, row)
        given.update(dict.fromkeys(value))
    fields = data_type.fields or ()
    expected = [field.name for field in fields]
    if set(given) != set(expected):
        raise InputError(
            f"column {name!r} has the fields {list(given)}, but the table's are {expected}: "
            "give these",
            column=name,
            expected=expected,
        )
    parts = [
        _array(
            [None if value is None else value.get(field.name) for value in values],
            field.type,
            f"{name}.{field.name}",
        )
        for field in fields
    ]
    mask = pa.array([value is None for value in values])
    return pa.StructArray.from_arrays(parts, names=expected, mask=mask)


def _scalars(values: Sequence[Any], data_type: DataType, name: str) -> pa.Array:
    """Let Arrow infer the type, which the casts then judge: given the type, it cuts off
    fractions."""
    arrow = None
    if data_type.root in (*TIMESTAMPS, "DATE", "TIME"):
        _check_times(values, data_type, name)
        if any(map(_has_nanoseconds, values)):
            arrow = nanoseconds(data_type.root)
    if data_type.root == "DECIMAL":
        values = [Decimal(value) if type(value) is int else value for value in values]
    try:
        return pa.array(values, arrow)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise _first_unlike(values, data_type, name) from error


def _has_nanoseconds(value: Any) -> bool:
    """Whether it is a time of Arrow's in nanoseconds, or of pandas' with some."""
    if isinstance(value, pa.TimestampScalar):
        return bool(value.type.unit == "ns")
    return bool(getattr(value, "nanosecond", 0))


def _check_times(values: Sequence[Any], data_type: DataType, name: str) -> None:
    for row, value in enumerate(values):
        remedy = _remedy(value, data_type.root)
        if remedy is not None and value == value:  # pandas' NaT is not
            raise InputError(
                f"column {name!r} row {row}: {value!r} does not fit {data_type}: {remedy}",
                column=name,
                row=row,
                value=value,
                expected=str(data_type),
            )


def _remedy(value: Any, root: str) -> str | None:
    """Say what to do with a value that Arrow would cut the time or the time zone off of."""
    if root == "DATE":
        return "give its date()" if isinstance(value, datetime) else None
    if root == "TIME":
        return "drop its time zone" if isinstance(value, time) and value.tzinfo else None
    if not isinstance(value, datetime) or (value.tzinfo is not None) == (root == "TIMESTAMP_LTZ"):
        return None
    return "make it local and drop its time zone" if value.tzinfo else "give it a time zone"


def _first_unlike(values: Sequence[Any], data_type: DataType, name: str) -> InputError:
    """Make the error for values that are no column; name the first that is not of the type."""
    for row, value in enumerate(values):
        try:
            column = pa.chunked_array([pa.array([value])])
            cast_column(column, data_type.with_nullable(True), name)
        except (pa.ArrowException, InputError, OverflowError, TypeError, ValueError):
            return _unlike(value, data_type, name, row)
    return InputError(
        f"column {name!r} mixes kinds of values that do not make one {data_type} column",
        column=name,
        expected=str(data_type),
    )


def _unlike(value: Any, data_type: DataType, name: str, row: int) -> InputError:
    return InputError(
        f"column {name!r} row {row}: {value!r} is not a value of {data_type}; correct it",
        column=name,
        row=row,
        value=value,
        expected=str(data_type),
    )


def to_python(value: pa.Scalar) -> Any:
    """Give a value as Python has it; dates and times that Python has none for, as text."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        pass
    if isinstance(value, pa.StructScalar):
        return {name: to_python(part) for name, part in value.items()}
    if isinstance(value, pa.MapScalar):
        return [tuple(to_python(part) for part in pair.values()) for pair in value.values]
    if isinstance(value, pa.ListScalar):
        return [to_python(part) for part in value.values]
    return str(value.cast(pa.string()))


def to_python_list(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Give the values of a column, each as of `to_python`."""
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        values = [to_python(each) for each in column]
    return values


def row_text(rows: pa.RecordBatch | pa.Table, row: int) -> str:
    """Write a row for a message: ``k = 2, s = 'a'``; hidden columns ($…) are left out."""
    values = {
        name: to_python(rows.column(place)[row])
        for place, name in enumerate(rows.schema.names)
        if not name.startswith("$")
    }
    said = ", ".join(f"{name} = {_shown(value)}" for name, value in values.items())
    return said if len(said) <= 300 else said[:299] + "…"


def _shown(value: Any) -> str:
    return "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)
