"""Casts of Arrow values, as Spark's ANSI mode has them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError, UnsupportedError
from pkray.relational.functions.casts import numbers, parsing, times
from pkray.relational.functions.casts.writing import write
from pkray.relational.functions.coercion import FLOATS, NUMBERS
from pkray.relational.functions.function import Value
from pkray.relational.functions.values import as_array
from pkray.relational.plan.expressions import Cast
from pkray.rows.python_values import to_python
from pkray.schema.types import BINARIES, INTEGERS, STRINGS, TIMESTAMPS, DataType

_NEVER_FAIL = {
    ("TINYINT", "SMALLINT"), ("TINYINT", "INT"), ("TINYINT", "BIGINT"), ("SMALLINT", "INT"),
    ("SMALLINT", "BIGINT"), ("INT", "BIGINT"), ("FLOAT", "DOUBLE"), ("DATE", "TIMESTAMP"),
    ("DATE", "TIMESTAMP_LTZ"), ("TIMESTAMP", "DATE"), ("TIMESTAMP_LTZ", "DATE"),
}  # fmt: skip


def cast_can_fail(cast: Cast) -> bool:
    """Whether some value of the operand's type stops the query."""
    source, target = cast.operand.type, cast.type
    if cast.on_error != "raise" or (source.root, target.root) in _NEVER_FAIL:
        return False
    if target.root in STRINGS:
        return source.root in BINARIES
    if target.root in FLOATS or target.root == "BOOLEAN":
        return source.root not in NUMBERS
    if target.root == "DECIMAL" and source.root in (*INTEGERS, "DECIMAL"):
        return not _always_fits(source, target)
    return True


def _always_fits(source: DataType, target: DataType) -> bool:
    digits = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
    scale = source.scale or 0
    whole = digits.get(source.root, (source.precision or 0) - scale)
    return (target.scale or 0) >= scale and (target.precision or 0) - (target.scale or 0) >= whole


def cast_kernel(cast: Cast) -> Callable[[list[Value], int], Value]:
    """Compile a cast."""
    source, target, on_error = cast.operand.type, cast.type, cast.on_error
    convert = _wrapping(source, target) if on_error == "wrap" else converter(source, target)

    def kernel(values: list[Value], rows: int) -> Value:
        array = as_array(values[0], rows)
        result, bad = convert(array, source, target)
        if bad is not None and bad.true_count:
            if on_error == "raise":
                raise _refused(array, bad, source, target)
            if source.root in ("ARRAY", "ROW"):  # only the parts are NULL that do not fit
                return result
            result = pc.if_else(bad, pa.scalar(None, result.type), result)
        return result

    return kernel


def _refused(array: pa.Array, bad: pa.Array, source: DataType, target: DataType) -> EvaluationError:
    row = pc.index(bad, True).as_py()
    value = to_python(array[row])
    shown = repr(value) if isinstance(value, str) else str(value)
    wanted = target.with_nullable(True)
    return EvaluationError(
        f"{shown[:80]} ({source.with_nullable(True)}) cannot be cast to {wanted}; "
        f"TRY_CAST gives NULL for it",
        function="cast",
        row=row,
    )


def converter(source: DataType, target: DataType) -> numbers.Converter:
    """Find what casts values of one type to another."""
    one, other = source.root, target.root
    if other in STRINGS:
        return _from_bytes if one in BINARIES else _to_text
    if one in STRINGS:
        return _FROM_TEXT[_group(other)]
    if source.is_nested or target.is_nested:
        return _NESTED[one]
    found = _CONVERTERS.get((_group(one), _group(other)))
    if found is None:
        raise UnsupportedError(f"a cast from {source} to {target} is not supported")
    return found


def _group(root: str) -> str:
    if root in INTEGERS:
        return "INTEGER"
    if root in FLOATS:
        return "FLOAT"
    if root in TIMESTAMPS:
        return "TIMESTAMP"
    return "BYTES" if root in BINARIES else root


def _from_bytes(array: pa.Array, source: DataType, target: DataType) -> numbers.Converted:
    """Read bytes as UTF-8; other bytes do not fit."""
    try:
        return _sized(array.cast(pa.string()), target), None
    except pa.ArrowInvalid:
        raise EvaluationError(
            f"BYTES that are no UTF-8 cannot be cast to {target.with_nullable(True)}; "
            "write them with hex or base64",
            function="cast",
        ) from None


def _to_text(array: pa.Array, source: DataType, target: DataType) -> numbers.Converted:
    """Write values as text."""
    return _sized(write(array, source), target), None


def _sized(texts: pa.Array, target: DataType) -> pa.Array:
    """Cut text to the length of CHAR and VARCHAR, and fill CHAR up with spaces."""
    if target.length is None:
        return texts
    cut = pc.utf8_slice_codeunits(texts, 0, target.length)
    return pc.utf8_rpad(cut, target.length, " ") if target.root == "CHAR" else cut


def _bytes_sized(array: pa.Array, source: DataType, target: DataType) -> numbers.Converted:
    """Cut bytes to the length of BINARY and VARBINARY, and fill BINARY up with zeros."""
    plain = array.cast(pa.binary())
    if target.length is None:
        return plain, None
    cut = pc.binary_slice(plain, 0, target.length)
    if target.root == "BINARY":
        cut = pc.binary_join_element_wise(cut, bytes(target.length), b"")
        cut = pc.binary_slice(cut, 0, target.length)
    return cut, None


# Nested types: what cannot be cast in a part makes the whole value bad


def _array(array: pa.Array, source: DataType, target: DataType) -> numbers.Converted:
    assert source.element is not None
    assert target.element is not None
    array = _compact(array)
    values, bad = _part(array.values, source.element, target.element)
    valid = _validity_buffer(array)
    kind = target.arrow
    result = pa.Array.from_buffers(
        kind, len(array), [valid, array.buffers()[1]], array.null_count, children=[values]
    )
    return result, None if bad is None else _any_of(array, bad)


def _map(array: pa.Array, source: DataType, target: DataType) -> numbers.Converted:
    assert source.key is not None
    assert target.key is not None
    assert source.value is not None
    assert target.value is not None
    array = _compact(array)
    keys, bad_keys = _part(array.keys, source.key, target.key)
    if bad_keys is not None and bad_keys.true_count:  # a map whose keys are NULL cannot be made
        wrong = _any_of(array, bad_keys)
        fitting = pc.if_else(wrong, pa.scalar(None, array.type), array)
        result, bad = _map(fitting, source, target)
        return result, wrong if bad is None else pc.or_(wrong, bad)
    items, bad_items = _part(array.items, source.value, target.value)
    parts = [target.arrow.key_field, target.arrow.item_field]
    entries = pa.StructArray.from_arrays([keys, items], fields=parts)
    result = pa.Array.from_buffers(
        target.arrow,
        len(array),
        [_validity_buffer(array), array.buffers()[1]],
        array.null_count,
        children=[entries],
    )
    masks = [each for each in (bad_keys, bad_items) if each is not None]
    if not masks:
        return result, None
    bad = masks[0] if len(masks) == 1 else pc.or_(*masks)
    return result, _any_of(array, bad)


def _row(array: pa.Array, source: DataType, target: DataType) -> numbers.Converted:
    parts: list[pa.Array] = []
    bad: Any = None
    for number, (one, other) in enumerate(
        zip(source.fields or (), target.fields or (), strict=True)
    ):
        part, wrong = _part(pc.struct_field(array, number), one.type, other.type)
        parts.append(part)
        if wrong is not None:
            bad = wrong if bad is None else pc.or_(bad, wrong)
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(target.arrow), mask=mask), bad


def _part(array: pa.Array, source: DataType, target: DataType) -> numbers.Converted:
    if source.with_nullable(True) == target.with_nullable(True):
        return array, None
    values, bad = converter(source, target)(array, source, target)
    if bad is not None:
        bad = bad.fill_null(False)
        values = pc.if_else(bad, pa.scalar(None, values.type), values)
    return values, bad


def _compact(array: pa.Array) -> pa.Array:
    """Make offsets begin at 0 and children hold no more than the rows' elements."""
    return pa.concat_arrays([array, array.slice(0, 0)]) if array.offset else array


def _validity_buffer(array: pa.Array) -> Any:
    return array.buffers()[0] if array.null_count else None


_NESTED: dict[str, numbers.Converter] = {"ARRAY": _array, "MAP": _map, "ROW": _row}
_FROM_TEXT: dict[str, numbers.Converter] = {
    "BOOLEAN": parsing.parse_boolean,
    "INTEGER": parsing.parse_integer,
    "FLOAT": parsing.parse_double,
    "DECIMAL": parsing.parse_decimal,
    "DATE": parsing.parse_date,
    "TIMESTAMP": parsing.parse_timestamp,
    "TIME": parsing.parse_time,
    "BYTES": _bytes_sized,
}
_CONVERTERS: dict[tuple[str, str], numbers.Converter] = {
    ("INTEGER", "INTEGER"): numbers.cast_integers,
    ("INTEGER", "FLOAT"): numbers.cast_plainly,
    ("INTEGER", "DECIMAL"): numbers.integer_to_decimal,
    ("INTEGER", "BOOLEAN"): numbers.to_boolean,
    ("INTEGER", "TIMESTAMP"): times.number_to_timestamp,
    ("FLOAT", "INTEGER"): numbers.float_to_integer,
    ("FLOAT", "FLOAT"): numbers.cast_plainly,
    ("FLOAT", "DECIMAL"): numbers.float_to_decimal,
    ("FLOAT", "BOOLEAN"): numbers.to_boolean,
    ("FLOAT", "TIMESTAMP"): times.number_to_timestamp,
    ("DECIMAL", "INTEGER"): numbers.decimal_to_integer,
    ("DECIMAL", "FLOAT"): numbers.cast_decimal_to_float,
    ("DECIMAL", "DECIMAL"): numbers.cast_decimals,
    ("DECIMAL", "BOOLEAN"): numbers.to_boolean,
    ("DECIMAL", "TIMESTAMP"): times.number_to_timestamp,
    ("BOOLEAN", "INTEGER"): numbers.from_boolean,
    ("BOOLEAN", "FLOAT"): numbers.from_boolean,
    ("BOOLEAN", "DECIMAL"): numbers.from_boolean,
    ("BOOLEAN", "BOOLEAN"): numbers.cast_plainly,
    ("BYTES", "BYTES"): _bytes_sized,
    ("DATE", "DATE"): numbers.cast_plainly,
    ("DATE", "TIMESTAMP"): times.cast_times,
    ("TIMESTAMP", "DATE"): times.cast_times,
    ("TIMESTAMP", "TIMESTAMP"): times.cast_times,
    ("TIMESTAMP", "TIME"): times.timestamp_to_time,
    ("TIMESTAMP", "INTEGER"): times.timestamp_to_number,
    ("TIMESTAMP", "FLOAT"): times.timestamp_to_number,
    ("TIMESTAMP", "DECIMAL"): times.timestamp_to_number,
    ("TIME", "TIMESTAMP"): times.time_to_timestamp,
    ("TIME", "TIME"): times.same_time,
}


def _wrapping(source: DataType, target: DataType) -> numbers.Converter:
    if source.root in FLOATS:
        return numbers.saturated
    return numbers.decimal_wrapped if source.root == "DECIMAL" else numbers.cast_plainly


def _any_of(array: pa.Array, bad: pa.Array) -> pa.Array:
    """Say of each list whether one of its elements does not fit."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)[: len(array) + 1]
    counts = np.concatenate(([0], np.cumsum(bad.to_numpy(zero_copy_only=False))))
    return pa.array(counts[offsets[1:]] > counts[offsets[:-1]])
