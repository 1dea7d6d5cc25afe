"""Functions that shift times between zones."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError
from pkray.relational.functions.coercion import cast_to
from pkray.relational.functions.function import Value, Written, typed_call
from pkray.relational.functions.signatures import result, takes, text, text_literal
from pkray.relational.functions.time import arguments as args
from pkray.relational.functions.values import as_array
from pkray.relational.plan.expressions import Call, Expression

_FAR = 2_114_380_800_000_000
"""2037-01-01 in microseconds: Arrow knows no rules of zones for times much later."""
_CYCLE = 146_097 * 86_400_000_000
"""400 years, after which days of the week and of the year are the same."""
_QUARTER = 900_000_000


def _far_offsets(times: np.ndarray, zone: str, local: bool) -> np.ndarray:
    """Give a zone's distance from UTC, in microseconds, by the last rule that it has."""
    times = np.where(times < _FAR + _CYCLE, times, _FAR + (times - _FAR) % _CYCLE)
    quarters, places = np.unique(times // _QUARTER, return_inverse=True)
    rule = ZoneInfo(zone)
    offsets = []
    for quarter in quarters.tolist():
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=quarter * _QUARTER)
        there = moment.astimezone(rule) if local else moment.replace(tzinfo=rule)
        offsets.append((there.utcoffset() or timedelta()) // timedelta(microseconds=1))
    return np.array(offsets, np.int64)[places]


def in_zone(local: bool) -> Callable[[pa.Array, str], pa.Array]:
    """Shift times in UTC to a zone's wall clock (`local`), or back."""

    def shift(times: pa.Array, zone: str) -> pa.Array:
        if zone.upper() in ("UTC", "GMT", "Z"):
            return times
        shifted = near(times, zone)
        micros = np.asarray(times.view(pa.int64()).fill_null(0))
        far = micros >= _FAR
        if not far.any() or zone[:1] in "+-":
            return shifted
        offsets = _far_offsets(micros[far], zone, local)
        moved = pa.array(micros[far] + (offsets if local else -offsets)).view(times.type)
        return pc.replace_with_mask(shifted, pa.array(far), moved)

    def near(times: pa.Array, zone: str) -> pa.Array:
        naive = times.view(pa.timestamp("us"))
        if local:
            there = naive.view(pa.timestamp("us", "UTC")).cast(pa.timestamp("us", zone))
            return pc.local_timestamp(there).view(times.type)
        # A time that the clock leaves out is read by the offset before the gap.
        before = pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="earliest")
        offset = pc.subtract(pc.local_timestamp(before).view(pa.int64()), before.view(pa.int64()))
        return pc.subtract(naive.view(pa.int64()), offset).view(times.type)

    return shift


def _zone_kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
    shift = in_zone(call.function in ("from_utc_timestamp", "local_time"))
    times, zones = as_array(values[0], rows).view(call.type.arrow), values[1]
    if isinstance(zones, pa.Scalar):
        if not zones.is_valid:
            return pa.nulls(rows, call.type.arrow)
        return _shifted(shift, times, zones.as_py())
    result = pa.nulls(rows, call.type.arrow)
    for zone in zones.unique().drop_null().to_pylist():
        chosen = pc.fill_null(pc.equal(zones, zone), False)
        result = pc.replace_with_mask(result, chosen, _shifted(shift, times.filter(chosen), zone))
    return result


def _shifted(shift: Callable[[pa.Array, str], pa.Array], times: pa.Array, zone: str) -> pa.Array:
    try:
        return shift(times, zone)
    except pa.ArrowInvalid:
        raise EvaluationError(
            f"there is no time zone {zone!r}: write 'Europe/Berlin' or '+02:00'", zone=zone
        ) from None


def _convert_timezone(call: Written) -> Expression:
    """Resolve convert_timezone([source,] target, time)."""
    call.between(2, 3)
    value: Expression = args.timestamp_ltz.taken(call, len(call.arguments) - 1)
    if len(call.arguments) == 3:
        value = cast_to(call.arguments[2], args.NTZ)
        value = typed_call("instant_at", value, text.taken(call, 0))
    target = text.taken(call, len(call.arguments) - 2)
    return typed_call("local_time", cast_to(value, args.LTZ), target)


def _convert_tz(call: Written) -> Expression:
    """Resolve CONVERT_TZ(text, source, target)."""
    said, source, target = call.taken(text, text, text)
    pattern = text_literal(args.DEFAULT_PATTERN)
    instant = typed_call("instant_at", typed_call("try_parse_timestamp", said, pattern), source)
    return typed_call("date_format", typed_call("local_time", instant, target), pattern)


for _name, _about in (
    ("from_utc_timestamp", "Shift a time in UTC to the wall clock of a zone."),
    ("to_utc_timestamp", "Shift a time on the wall clock of a zone to UTC."),
):
    args.TIME.add(
        f"{_name}(time, zone) -> TIMESTAMP_LTZ",
        _about,
        takes(args.timestamp_ltz, text),
        _zone_kernel,
        result(args.LTZ),
    )
args.TIME.add_inner(
    "local_time",
    "Give the wall clock of a zone at an instant.",
    _zone_kernel,
    result(args.NTZ),
    lambda call, arguments: (
        f"CAST(from_utc_timestamp({arguments[0]}, {arguments[1]}) AS TIMESTAMP_NTZ)"
    ),
)
args.TIME.add_inner(
    "instant_at",
    "Give the instant at which the wall clock of a zone shows a time.",
    _zone_kernel,
    result(args.LTZ),
    lambda call, arguments: f"to_utc_timestamp(CAST({arguments[0]} AS TIMESTAMP), {arguments[1]})",
)
args.TIME.alias(
    "convert_timezone([source,] target, time) -> TIMESTAMP",
    "Shift a time from the wall clock of one zone (UTC if not said) to that of another.",
    _convert_timezone,
)
args.TIME.only(args.FLINK).alias(
    "convert_tz(text, source, target) -> STRING",
    "Shift a time, written as 'yyyy-MM-dd HH:mm:ss', from one zone to another.",
    _convert_tz,
)
