"""Shifts times between UTC and the wall clocks of zones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
