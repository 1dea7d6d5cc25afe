"""Arrow values in kernels: arrays and scalars alike."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError
from pkray.relational.functions.function import Value
from pkray.relational.functions.outputs import check_repeated
from pkray.relational.plan.expressions import Call
from pkray.rows.python_values import to_python


def zero(kind: pa.DataType) -> pa.Scalar:
    """Give zero in a type of numbers."""
    return pa.scalar(Decimal(0) if pa.types.is_decimal(kind) else 0, kind)


def unit(kind: pa.DataType) -> pa.Scalar:
    """Give one in a type of numbers; of decimals the least above zero."""
    return pa.scalar(Decimal(1).scaleb(-kind.scale) if pa.types.is_decimal(kind) else 1, kind)


def as_array(value: Value, rows: int) -> pa.Array:
    """Repeat a scalar for each row."""
    if not isinstance(value, pa.Scalar):
        return value
    if not value.is_valid:
        return pa.nulls(rows, value.type)
    check_repeated(value, rows)
    return pa.repeat(value, rows)


def numpy_of(value: Value) -> Any:
    """Give numbers as numpy does: an array, or a number for a scalar; NULLs become 0."""
    if isinstance(value, pa.Scalar):
        zero = np.zeros(1, value.type.to_pandas_dtype())[0]
        return zero.dtype.type(value.as_py()) if value.is_valid else zero
    if value.null_count:
        value = value.fill_null(pa.scalar(0).cast(value.type))
    return value.to_numpy(zero_copy_only=False)


def validity(values: Sequence[Value]) -> pa.Array | None:
    """Tell for each row whether no argument is NULL; None where there is no NULL at all."""
    found: Any = None
    for value in values:
        if isinstance(value, pa.Scalar):
            valid: Any = None if value.is_valid else pa.scalar(False)
        else:
            valid = value.is_valid() if value.null_count else None
        if valid is not None:
            found = valid if found is None else pc.and_(found, valid)
    return found


def null_rows(values: Sequence[Value], rows: int) -> np.ndarray:
    """Say in which rows an argument is NULL."""
    null = np.zeros(rows, bool)
    for value in values:
        if isinstance(value, pa.Scalar):
            null |= not value.is_valid
        elif value.null_count:
            null |= np.asarray(value.is_null())
    return null


def from_numpy(result: Any, values: Sequence[Value], kind: pa.DataType, rows: int) -> pa.Array:
    """Make an array of numbers, with NULL where an argument is NULL."""
    if np.ndim(result) == 0:
        result = np.full(rows, result)
    valid = validity(values)
    if valid is None:
        return pa.array(result, kind)
    mask = ~as_array(valid, rows).to_numpy(zero_copy_only=False)
    return pa.array(result, kind, mask=mask)


def row_of(value: Value, row: int) -> Any:
    """Give one row's value, for messages."""
    return to_python(value if isinstance(value, pa.Scalar) else value[row])


def part_of(value: Value, start: int, count: int) -> Value:
    """Take some rows."""
    return value if isinstance(value, pa.Scalar) else value.slice(start, count)


def checked(
    call: Call, values: Sequence[Value], rows: int, compute: Callable[..., Value], problem: str
) -> Value:
    """Compute; where Arrow refuses, find the first row that it refuses for the error.

    Args:
        compute: a function of `values`.
        problem: what is wrong: ``overflows INT``.

    Raises:
        EvaluationError: names the function, the row's arguments and `problem`.
    """
    try:
        return compute(*values)
    except pa.ArrowInvalid:
        row = _first_refused(values, rows, compute)
    said = written(call.function, [_shown(row_of(value, row)) for value in values])
    raise EvaluationError(f"{said} {problem}", function=call.function, row=row)


def refuse(call: Call, values: Sequence[Value], wrong: Value, problem: str, rows: int) -> None:
    """Refuse the first row for which `wrong` is true and no argument is NULL, if there is one.

    Raises:
        EvaluationError: names the function, the row's arguments and `problem`.
    """
    valid = validity(values)
    wrong = wrong if valid is None else pc.and_(wrong, valid)
    if isinstance(wrong, pa.Scalar):
        if not wrong.as_py() or not rows:
            return
        row = 0
    else:
        row = pc.index(wrong, True).as_py()
        if row < 0:
            return
    said = written(call.function, [_shown(row_of(value, row)) for value in values])
    raise EvaluationError(f"{said} {problem}", function=call.function, row=row)


_OPERATORS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "mod": "%",
    "divide_truncating": "/",
    "div": "DIV",
}
_WRITTEN = {
    "parse_timestamp": "to_timestamp",
    "sequence_of_times": "sequence",
    "negative": "-",
    "elt_item": "elt",
}


def written(name: str, values: Sequence[str]) -> str:
    """Write a call as people write it: ``1 / 0``, ``to_date('x')``."""
    name = name.removesuffix("_wrapping")
    if name in _OPERATORS and len(values) == 2:
        return f" {_OPERATORS[name]} ".join(values)
    if name == "array_item":
        return f"{values[0]}[{values[1]}]"
    if name == "plus_interval" and len(values) == 3:
        return f"{values[0]} + {values[1]} months + {values[2]} microseconds"
    return f"{_WRITTEN.get(name, name)}({', '.join(values)})"


def _first_refused(values: Sequence[Value], rows: int, compute: Callable[..., Value]) -> int:
    low, high = 0, max(rows, 1)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            compute(*(part_of(value, low, middle - low) for value in values))
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _shown(value: Any) -> str:
    text = "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else text[:77] + "…"


def by_distinct(value: Value, compute: Callable[[Any], Any], kind: pa.DataType, rows: int) -> Value:
    """Compute in Python what each distinct value gives; NULL gives NULL."""
    if isinstance(value, pa.Scalar):
        return pa.scalar(compute(value.as_py()) if value.is_valid else None, kind)
    known = value.dictionary_encode()
    found = pa.array([compute(each) for each in known.dictionary.to_pylist()], kind)
    return found.take(known.indices)


def all_scalars(values: Sequence[Value]) -> bool:
    """Whether each is one value for all rows."""
    return all(isinstance(value, pa.Scalar) for value in values)
