"""Bound what functions make before it is made.

A few functions make far more than they are given: ``repeat``, ``sequence``, ``replace`` by longer
text. Before one of them is computed, the bytes of each row's value are estimated. A value above
`MOST_OF_VALUE` is refused, with the call; a batch of them above `MOST_OF_BATCH` raises
`OversizedError`, and is computed again in halves.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError, UnsupportedError
from pkray.relational.functions.function import Value
from pkray.relational.plan.expressions import Call
from pkray.rows.python_values import to_python

MOST_OF_VALUE = 256 << 20
"""Bytes of one value that a function may make: with copies, what small machines can hold."""

MOST_OF_BATCH = 64 << 20
"""Bytes that a function makes of one batch."""

Sizes: TypeAlias = np.ndarray | float
"""float64 bytes of each row's value, at most; or of every row's."""
Estimate: TypeAlias = Callable[[Sequence[Value]], Sizes]
_SHOWN = 40
_PLACES = 16
"""Bytes that a character costs which is taken by its place."""


class OversizedError(UnsupportedError):
    """Says that a batch makes more than fits at once; fewer rows may."""


def check_output(call: Call, values: Sequence[Value], rows: int) -> None:
    """Refuse a value that is too large, before it is made.

    Raises:
        EvaluationError: one value is; the call is said.
        OversizedError: the values of the batch are together.
    """
    estimate = ESTIMATES.get(call.function)
    if estimate is None or not rows:
        return
    sizes = estimate(values)
    if not isinstance(sizes, np.ndarray):
        greatest, total, row = float(sizes), float(sizes) * rows, 0
        if all(isinstance(value, pa.Scalar) for value in values):
            total = greatest  # it is made once
    else:
        row = int(np.argmax(sizes))
        greatest, total = float(sizes[row]), float(np.sum(sizes))
    if greatest > MOST_OF_VALUE:
        said = f"{call.function}({', '.join(_shown(value, row) for value in values)})"
        raise EvaluationError(
            f"{said} makes a value of about {greatest:.0f} bytes; at most {MOST_OF_VALUE} fit",
            function=call.function,
            row=row,
        )
    check_batch(f"{call.function} of {rows} rows", total, rows)


def check_batch(what: str, size: float, rows: int) -> None:
    """Refuse what a batch of rows makes, before it is made.

    Raises:
        EvaluationError: of one row.
        OversizedError: of more.
    """
    most = MOST_OF_BATCH if rows > 1 else MOST_OF_VALUE
    if size > most:
        kind = OversizedError if rows > 1 else EvaluationError
        raise kind(f"{what} makes about {size:.0f} bytes at once; at most {most} fit")


def check_repeated(value: pa.Scalar, rows: int) -> None:
    """Refuse to repeat a constant more often than fits."""
    if rows > 1 and value.is_valid and (size := _scalar_size(value)) > 64:
        check_batch(f"a constant of {size} bytes for {rows} rows", float(size) * rows, rows)


def _scalar_size(value: pa.Scalar) -> int:
    kind = value.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return int(value.as_buffer().size)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return int(value.values.nbytes)
    return 0


def _shown(value: Value, row: int) -> str:
    one = value if isinstance(value, pa.Scalar) else value[row]
    if _scalar_size(one) > 10 * _SHOWN:
        return "…"
    found = to_python(one)
    text = "NULL" if found is None else repr(found) if isinstance(found, str) else str(found)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _numbers(value: Value) -> Sizes:
    """Give whole numbers, none below 0; NULL is 0."""
    return np.maximum(_signed(value), 0)


def _bytes(value: Value) -> Sizes:
    """Give the bytes of texts, or of other values, about; NULL is 0."""
    kind = value.type
    if isinstance(value, pa.Scalar):
        return _bytes_exactly(value) or 8.0
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return np.asarray(pc.fill_null(pc.binary_length(value), 0)).astype(np.float64)
    return row_sizes([value], len(value)).astype(np.float64)


def row_sizes(columns: Sequence[pa.Array], rows: int) -> np.ndarray:
    """Give the bytes that each row's values take, about: int64, one a row."""
    return sum(map(_value_sizes, columns), np.zeros(rows, np.int64))


def _value_sizes(array: pa.Array) -> np.ndarray:
    kind = array.type
    if pa.types.is_struct(kind):
        parts = [array.field(number) for number in range(kind.num_fields)]
        return row_sizes(parts, len(array)) + 1
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        children = [array.keys, array.items] if pa.types.is_map(kind) else [array.values]
        ends = np.concatenate(([0], np.cumsum(row_sizes(children, len(children[0])))))
        return np.asarray(np.diff(ends[np.asarray(array.offsets)])) + 4
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        lengths = pc.fill_null(pc.binary_length(array), 0)
        return np.asarray(lengths).astype(np.int64) + 4
    return np.full(len(array), -(-array.nbytes // max(len(array), 1)))


def _together(values: Sequence[Value]) -> Sizes:
    return sum(map(_bytes, values), 0.0)


def _repeated(values: Sequence[Value]) -> Sizes:
    return _bytes(values[0]) * _numbers(values[1])


def _padded(values: Sequence[Value]) -> Sizes:
    """Count four bytes a character, as many as UTF-8 has at most, unless what fills is ASCII."""
    filling = str(values[2].as_py()) if isinstance(values[2], pa.Scalar) else ""
    if len(filling) != 1:
        return _numbers(values[1]) * _PLACES + _bytes(values[0])
    return _numbers(values[1]) * (1 if filling.isascii() else 4) + _bytes(values[0])


def _replaced(values: Sequence[Value]) -> Sizes:
    """Count a replacement for each place where the text sought can be."""
    if len(values) < 3:
        return _bytes(values[0])
    sought = np.maximum(_bytes_exactly(values[1]), 1)
    texts, new = _bytes_exactly(values[0]), _bytes_exactly(values[2])
    return texts + texts / sought * np.maximum(new - sought, 0)


def _bytes_exactly(value: Value) -> Sizes:
    if isinstance(value, pa.Scalar):
        return float(_scalar_size(value) if value.is_valid else 0)
    return _bytes(value)


def _regexp_replaced(values: Sequence[Value]) -> Sizes:
    """Count a replacement for each match where one for each character would be too much."""
    text, pattern, new, *_ = values
    return _of_matches(text, pattern, _bytes_exactly(new))


def _of_matches(text: Value, pattern: Value, added: Sizes) -> Sizes:
    """Give the bytes of a text and of what is added to it at each match."""
    texts = _bytes_exactly(text)
    most = texts + (texts + 1) * added
    if np.sum(most) <= MOST_OF_BATCH or not isinstance(pattern, pa.Scalar) or not pattern.is_valid:
        return most
    if not pattern.as_py():
        return most
    try:
        counts = _numbers(pc.count_substring_regex(text, pattern.as_py()))
    except pa.ArrowInvalid:  # of another dialect of patterns
        return most
    return texts + (counts + 1) * added


def _parted(values: Sequence[Value]) -> Sizes:
    """Count the places of parts, one at each match."""
    return _of_matches(values[0], values[1], _PLACES)


def _sequence(values: Sequence[Value]) -> Sizes:
    start, stop, step = (_signed(value) for value in (*values, pa.scalar(1))[:3])
    return 8 * (np.abs(stop - start) / np.maximum(np.abs(step), 1) + 1)


def _signed(value: Value) -> Sizes:
    if isinstance(value, pa.Scalar):
        return float(value.as_py() or 0)
    return np.asarray(pc.fill_null(value, 0)).astype(np.float64)


def _array_joined(values: Sequence[Value]) -> Sizes:
    separators = max((_longest(value) for value in values[1:]), default=0.0)
    return _bytes(values[0]) * (1 + separators / 4)  # an element takes 4 bytes beside its text


def _longest(value: Value) -> float:
    return float(np.max(_bytes_exactly(value), initial=0.0))


def _with_item(values: Sequence[Value]) -> Sizes:
    return _bytes(values[0]) + 16 * np.abs(_signed(values[1]))


ESTIMATES: dict[str, Estimate] = {
    "repeat": _repeated,
    "array_repeat": _repeated,
    "space": lambda values: _numbers(values[0]),
    "lpad": _padded,
    "rpad": _padded,
    "replace": _replaced,
    "regexp_replace": _regexp_replaced,
    "regexp_extract_all": _parted,
    "split": _parted,
    "str_to_map": lambda values: 2 * _parted(values),
    "sequence": _sequence,
    "concat": _together,
    "concat_ws": lambda values: _together(values[1:]) + len(values[1:]) * _bytes_exactly(values[0]),
    "array_join": _array_joined,
    "array_concat": _together,
    "array_insert": _with_item,
}
"""By functions' canonical names; what is not here makes about as much as it is given."""
