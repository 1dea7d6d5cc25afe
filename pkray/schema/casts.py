"""A column of whatever Arrow type, turned into the table's type without loss or not at all."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import InputError
from pkray.schema.types import BINARIES, INTEGERS, STRINGS, TIMESTAMPS, DataType, with_parts

_TAKES = {
    "BOOLEAN": ("boolean",),
    "FLOAT": ("float", "integer"),
    "DOUBLE": ("float", "integer"),
    "DECIMAL": ("decimal", "integer"),
    "DATE": ("date",),
    "TIME": ("time",),
    "TIMESTAMP": ("timestamp",),
    "TIMESTAMP_LTZ": ("timestamp with a time zone",),
    "ARRAY": ("list",),
    "MAP": ("map",),
    "ROW": ("struct",),
    **dict.fromkeys(INTEGERS, ("integer", "float")),
    **dict.fromkeys(STRINGS, ("string",)),
    **dict.fromkeys(BINARIES, ("binary",)),
}
_UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def cast_column(
    column: pa.ChunkedArray, data_type: DataType, name: str, *, rounding: bool = False
) -> pa.ChunkedArray:
    """Cast the column to the canonical Arrow type of ``data_type``; itself where it has that
    already.

    Args:
        rounding: whether doubles may be rounded to a FLOAT column: for Python's floats, which have
            no narrower type.

    Raises:
        InputError: a type that does not convert, a value that does not fit, or a null in a NOT NULL
            column; it names the column, and the row and value where there is one.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    fitted = column
    if not column.type.equals(data_type.arrow, check_metadata=data_type.is_nested):
        _check_type(column.type, data_type, name)
        fitted = _cast(column, data_type, name)
        _check_narrowed(column, fitted, data_type, name, rounding)
    _check_values(fitted, data_type, name)
    if not data_type.nullable:
        _check_nulls(fitted, name)
    return fitted


def _check_type(arrow: pa.DataType, data_type: DataType, name: str) -> None:
    if pa.types.is_null(arrow):
        return
    found = _class_of(arrow)
    if found not in _TAKES[data_type.root]:
        raise InputError(
            f"column {name!r} is {arrow}, but the table's is {data_type}: "
            f"{_remedy(found, data_type)}",
            column=name,
            type=str(arrow),
            expected=str(data_type),
        )
    if data_type.element is not None:
        _check_type(arrow.value_type, data_type.element, f"{name}[]")
    if data_type.key is not None and data_type.value is not None:
        _check_type(arrow.key_type, data_type.key, f"{name} (keys)")
        _check_type(arrow.item_type, data_type.value, f"{name} (values)")
    if data_type.fields is not None:
        expected = [field.name for field in data_type.fields]
        inner = [arrow.field(i).name for i in range(arrow.num_fields)]
        if inner != expected:
            raise InputError(
                f"column {name!r} has the fields {inner}, but the table's are {expected}: "
                "give all of them, in this order",
                column=name,
                expected=expected,
            )
        for i, field in enumerate(data_type.fields):
            _check_type(arrow.field(i).type, field.type, f"{name}.{field.name}")


def _class_of(arrow: pa.DataType) -> str:
    is_a = pa.types
    if is_a.is_timestamp(arrow):
        return "timestamp" if arrow.tz is None else "timestamp with a time zone"
    if is_a.is_dictionary(arrow):
        return _class_of(arrow.value_type)
    tests: tuple[tuple[str, tuple[Callable[[pa.DataType], bool], ...]], ...] = (
        ("boolean", (is_a.is_boolean,)),
        ("integer", (is_a.is_integer,)),
        ("float", (is_a.is_floating,)),
        ("decimal", (is_a.is_decimal,)),
        ("string", (is_a.is_string, is_a.is_large_string, is_a.is_string_view)),
        ("binary", (is_a.is_binary, is_a.is_large_binary, is_a.is_binary_view)),
        ("binary", (is_a.is_fixed_size_binary,)),
        ("date", (is_a.is_date,)),
        ("time", (is_a.is_time,)),
        ("list", (is_a.is_list, is_a.is_large_list, is_a.is_fixed_size_list)),
        ("map", (is_a.is_map,)),
        ("struct", (is_a.is_struct,)),
    )
    return next((name for name, checks in tests if any(check(arrow) for check in checks)), "other")


def _remedy(found: str, data_type: DataType) -> str:
    if found == "timestamp" and data_type.root == "TIMESTAMP_LTZ":
        return "say which time zone its times are in (pyarrow.compute.assume_timezone)"
    if found == "timestamp with a time zone" and data_type.root == "TIMESTAMP":
        return "make its times local (pyarrow.compute.local_timestamp)"
    return f"cast it to {data_type.arrow} first"


def _cast(column: pa.ChunkedArray, data_type: DataType, name: str) -> pa.ChunkedArray:
    def convert(rows: pa.ChunkedArray) -> pa.ChunkedArray:
        if data_type.root == "DECIMAL" and pa.types.is_integer(rows.type):
            # Arrow asks decimal128 for room for every int64, whatever the values are.
            rows = rows.cast(pa.decimal256(76, data_type.scale))
        try:
            return rows.cast(data_type.arrow)
        except pa.ArrowTypeError:  # PyArrow 19 makes no nullable part NOT NULL
            loose = rows.cast(_all_nullable(data_type).arrow)
            chunks = [relabelled(each, data_type.arrow) for each in loose.chunks]
            return pa.chunked_array(chunks, data_type.arrow)

    try:
        return convert(column)
    except pa.ArrowNotImplementedError as error:
        raise InputError(
            f"column {name!r} is {column.type}, which does not become {data_type}: cast it to "
            f"{data_type.arrow} first",
            column=name,
            type=str(column.type),
            expected=str(data_type),
        ) from error
    except pa.ArrowInvalid as error:
        failure = error
    if data_type.is_nested:
        # The cast of a nested slice judges the values outside of it too: look at a copy of it.
        try:
            return convert(_copy(column))
        except pa.ArrowInvalid as error:
            failure = error
    row = _first_failing(column, convert, copy=data_type.is_nested)
    raise _unfit(column, row, data_type, name) from failure


def _all_nullable(data_type: DataType) -> DataType:
    return with_parts(data_type, _all_nullable).with_nullable(True)


def relabelled(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Put the same bytes under a type that differs in what may be null: a cast refuses rows that
    are NULL, and so are their parts, where these are NOT NULL."""
    return pa.Array._import_from_c_capsule(arrow.__arrow_c_schema__(), array.__arrow_c_array__()[1])


def _copy(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.take(pa.array(range(len(column)), pa.int64()))


def _first_failing(column: pa.ChunkedArray, convert: Callable[[Any], Any], *, copy: bool) -> int:
    """Find the row of the first value that does not convert, by bisection."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        piece = column.slice(low, middle - low)
        try:
            convert(_copy(piece) if copy else piece)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _check_narrowed(
    wide: pa.ChunkedArray, narrow: pa.ChunkedArray, data_type: DataType, name: str, rounding: bool
) -> None:
    """Check doubles that became FLOAT, which Arrow's casts do not judge."""
    if data_type.root == "FLOAT" and pa.types.is_floating(wide.type):
        back = narrow.cast(wide.type)
        if rounding:
            lost = pc.and_(pc.is_inf(back), pc.is_finite(wide))
        else:
            lost = pc.and_(pc.not_equal(back, wide), pc.invert(pc.is_nan(wide)))
        _check_none(wide, lost, data_type, name)
    elif _has_float(data_type) and not pa.types.is_null(wide.type):
        aligned = pa.Table.from_arrays([wide, narrow], names=["wide", "narrow"])
        for batch in aligned.to_batches():
            pairs = zip(*(_parts(part, data_type, name) for part in batch.columns), strict=True)
            for (inner, part, inner_name), (narrowed, _, _) in pairs:
                columns = pa.chunked_array([inner]), pa.chunked_array([narrowed])
                _check_narrowed(*columns, part, inner_name, rounding)


def _has_float(data_type: DataType) -> bool:
    return data_type.root == "FLOAT" or any(map(_has_float, data_type.parts))


def _check_values(column: pa.ChunkedArray, data_type: DataType, name: str) -> None:
    """Check what Arrow's type does not hold: the longest text, the digits of a time."""
    if data_type.length is not None:
        lengths = pc.binary_length(column)
        if (pc.max(lengths).as_py() or 0) > data_type.length:
            if data_type.root in STRINGS:
                lengths = pc.utf8_length(column)
            _check_none(column, pc.greater(lengths, data_type.length), data_type, name)
    if data_type.root in TIMESTAMPS or data_type.root == "TIME":
        spare = _UNIT_DIGITS[data_type.arrow.unit] - (data_type.precision or 0)
        if spare > 0:
            width = pa.int32() if data_type.root == "TIME" else pa.int64()
            ticks = column.cast(width)
            step = pa.scalar(10**spare, width)
            whole = pc.multiply(pc.divide(ticks, step), step)
            _check_none(column, pc.not_equal(whole, ticks), data_type, name)
    if data_type.is_nested:
        for chunk in column.chunks:
            for part in _parts(chunk, data_type, name):
                _check_part(*part)


def _parts(
    array: pa.Array, data_type: DataType, name: str
) -> Iterator[tuple[pa.Array, DataType, str]]:
    """Yield what nested values are made of: the values that are there, their type and name."""
    if data_type.element is not None:
        yield array.flatten(), data_type.element, f"{name}[]"
    if data_type.key is not None and data_type.value is not None:
        # The keys and items of a slice are those of the whole array.
        start, end = (array.offsets[0].as_py(), array.offsets[-1].as_py()) if len(array) else (0, 0)
        yield array.keys[start:end], data_type.key, f"{name} (keys)"
        yield array.items[start:end], data_type.value, f"{name} (values)"
    if data_type.fields is not None:
        present = array.filter(array.is_valid()) if array.null_count else array
        for part, field in zip(present.flatten(), data_type.fields, strict=True):
            yield part, field.type, f"{name}.{field.name}"


def _check_part(array: pa.Array, data_type: DataType, name: str) -> None:
    column = pa.chunked_array([array])
    _check_values(column, data_type, name)
    if not data_type.nullable:
        _check_nulls(column, name)


def _check_nulls(column: pa.ChunkedArray, name: str) -> None:
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py()
        raise InputError(
            f"column {name!r} is null in row {row}, but it is NOT NULL in the table: "
            "give it a value or leave the row out",
            column=name,
            row=row,
        )


def _check_none(column: pa.ChunkedArray, bad: Any, data_type: DataType, name: str) -> None:
    row = pc.index(bad, True).as_py()
    if row >= 0:
        raise _unfit(column, row, data_type, name)


def _unfit(column: pa.ChunkedArray, row: int, data_type: DataType, name: str) -> InputError:
    value = plain_value(column[row])
    return InputError(
        f"column {name!r} row {row}: {value!r} does not fit {data_type} without loss; "
        "correct it, or give the column a wider type",
        column=name,
        row=row,
        value=value,
        expected=str(data_type),
    )


def plain_value(scalar: pa.Scalar) -> Any:
    """Convert the value to Python; times that Python has not become text."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return scalar.cast(pa.string()).as_py() if pa.types.is_temporal(scalar.type) else None
