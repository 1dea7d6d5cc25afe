"""Text that is read as an INTERVAL: ``1 02:03:04.5`` as DAY TO SECOND."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.functions import spans
from pkray.relational.functions.coercion import BIGINT
from pkray.relational.functions.function import NO_SPARK, Value
from pkray.relational.functions.time.arguments import TIME
from pkray.relational.functions.time.calendar import MICROS, MONTHS
from pkray.relational.functions.values import as_array, refuse
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.schema.types import DataType

_SIZES = {unit.upper(): size for unit, size in (*MONTHS.items(), *MICROS.items())}
_MOST = {"HOUR": 23, "MINUTE": 59, "SECOND": 59, "MONTH": 11}
"""The most of a field that stands after another."""


def _read(call: Call, values: Sequence[Value], rows: int) -> Value:
    texts = as_array(values[0], rows)
    unit = call.arguments[1]
    assert isinstance(unit, Literal)
    numbers, fits = _numbers(texts, str(unit.value))
    if call.function == "interval_of_text":
        wrong = pa.array(~fits & np.asarray(texts.is_valid()))
        refuse(call, values, wrong, f"is no INTERVAL {unit.value}; TRY_CAST gives NULL", rows)
    return pa.array(numbers, pa.int64(), mask=~fits)


def _numbers(texts: pa.Array, unit: str) -> tuple[np.ndarray, np.ndarray]:
    """Read texts as months or microseconds: int64, and whether each is one, bool, one a row."""
    fields = unit.split(" TO ")
    order = spans.YEAR_MONTH if fields[0] in spans.YEAR_MONTH else spans.DAY_SECOND
    parts = order[order.index(fields[0]) : order.index(fields[-1]) + 1]
    name = r"\s+".join(unit.split())
    whole = rf"(?i)^\s*interval\s+([+-]?)'(.*)'\s+{name}\s*$"
    plain = pc.replace_substring_regex(texts, whole, r"\1\2")
    groups = pc.extract_regex(plain, _pattern(parts))
    fits = np.asarray(groups.is_valid())
    total = np.zeros(len(texts), np.int64)
    for field in parts:
        found = pc.if_else(groups.is_valid(), pc.struct_field(groups, field), "0")
        number = np.asarray(found.cast(pa.int64()))
        if field != parts[0]:
            fits = fits & (number <= _MOST[field])
        total += number * _SIZES[field]
    if parts[-1] == "SECOND":
        found = pc.fill_null(pc.struct_field(groups, "fraction"), "")
        padded = pc.utf8_slice_codeunits(pc.utf8_rpad(found, 6, "0"), 0, 6)
        total += np.asarray(padded.cast(pa.int64()))
    minus = np.asarray(pc.fill_null(pc.equal(pc.struct_field(groups, "sign"), "-"), False))
    return np.where(minus, -total, total), fits


def _pattern(parts: Sequence[str]) -> str:
    """Write the pattern of fields, with a group for each; no number of it overflows 64 bits."""
    text = r"^\s*(?P<sign>[+-]?)"
    for field in parts:
        divider = {"HOUR": " +", "MONTH": "-"}.get(field, ":")
        digits = r"\d{1,7}" if field == parts[0] else r"\d{1,2}"
        text += ("" if field == parts[0] else divider) + f"(?P<{field}>{digits})"
    if parts[-1] == "SECOND":
        text += r"(?:\.(?P<fraction>\d{1,9}))?"
    return text + r"\s*$"


def _typing(arguments: tuple[Expression, ...]) -> DataType:
    return BIGINT.with_nullable(arguments[0].type.nullable)


for _name, _made in (
    ("interval_of_text", _typing),
    ("try_interval_of_text", lambda arguments: BIGINT),
):
    TIME.add_inner(
        _name,
        "Read text as the months or the microseconds of an INTERVAL.",
        _read,
        _made,
        NO_SPARK,
        fallible=_name == "interval_of_text",
    )
