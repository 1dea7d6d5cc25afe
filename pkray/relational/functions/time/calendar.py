"""Days, months and times of day as numbers.

A date or timestamp is `ticks`: int64 numbers of its own unit since 1970-01-01, of which there are
`per_day` in a day (1 for dates). The calendar is the proleptic Gregorian one; there are no leap
seconds, and times of TIMESTAMP_LTZ are of UTC.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa

SECONDS = 86_400
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True)
class Times:
    """Dates or timestamps, one a row; 0 where the row is NULL.

    Attributes:
        ticks: int64.
        per_day: how many are a day.
    """

    ticks: np.ndarray
    per_day: int

    @property
    def days(self) -> np.ndarray:
        """Days since 1970-01-01."""
        return self.ticks if self.per_day == 1 else self.ticks // self.per_day

    @property
    def rest(self) -> np.ndarray:
        """Ticks since midnight."""
        return self.ticks - self.days * self.per_day

    def on(self, days: np.ndarray) -> Self:
        """Give the same times of day on other days."""
        return replace(self, ticks=days * self.per_day + self.rest)

    def seconds(self) -> np.ndarray:
        """Count whole seconds since midnight."""
        return self.rest // max(self.per_day // SECONDS, 1)

    def fraction(self, per_second: int) -> np.ndarray:
        """Count fractions of the second, in units of which `per_second` are a second."""
        own = max(self.per_day // SECONDS, 1)
        part = self.rest % own
        return part * (per_second // own) if per_second >= own else part // (own // per_second)

    def micros(self) -> np.ndarray:
        """Count microseconds since 1970-01-01 00:00:00, finer parts left out."""
        whole = SECONDS * 10**6
        if self.per_day <= whole:
            return self.ticks * (whole // self.per_day)
        return self.ticks // (self.per_day // whole)


def per_day(kind: pa.DataType) -> int:
    """Count the ticks of a day of an Arrow date or timestamp type."""
    return 1 if pa.types.is_date(kind) else SECONDS * _PER_SECOND[kind.unit]


def times_of(array: pa.Array) -> Times:
    """Read dates, timestamps or times of day, which are on 1970-01-01."""
    plain = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    if plain.null_count:
        plain = plain.fill_null(0)
    return Times(np.asarray(plain).astype(np.int64), per_day(array.type))


def months_of(days: np.ndarray) -> np.ndarray:
    """Count the months since January 1970."""
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def first_of(months: np.ndarray) -> np.ndarray:
    """Give the first day of months since January 1970."""
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def day_of_month(days: np.ndarray) -> np.ndarray:
    """Give the day in its month, from 1."""
    return days - first_of(months_of(days)) + 1


def year_of(days: np.ndarray) -> np.ndarray:
    """Give the year."""
    return months_of(days) // 12 + 1970


def day_of_year(days: np.ndarray) -> np.ndarray:
    """Give the day in its year, from 1."""
    return days - first_of(months_of(days) // 12 * 12) + 1


def weekday(days: np.ndarray) -> np.ndarray:
    """Give the day in its week, from 0 for Monday."""
    return (days + 3) % 7


def monday(days: np.ndarray) -> np.ndarray:
    """Give the Monday on or before."""
    return days - weekday(days)


def iso_year(days: np.ndarray) -> np.ndarray:
    """Give the year that the week is counted in: that of its Thursday."""
    return year_of(monday(days) + 3)


def iso_week(days: np.ndarray) -> np.ndarray:
    """Give the number of the week, from 1: the first is the one with the year's first Thursday."""
    return (day_of_year(monday(days) + 3) - 1) // 7 + 1


def plus_months(days: np.ndarray, months: np.ndarray) -> np.ndarray:
    """Add months; a day that the month has not becomes its last."""
    start = months_of(days)
    last = first_of(start + months + 1) - first_of(start + months) - 1
    return first_of(start + months) + np.minimum(days - first_of(start), last)


def last_of_month(days: np.ndarray) -> np.ndarray:
    """Give the last day of the month."""
    return first_of(months_of(days) + 1) - 1


def months_between(start: Times, end: Times) -> np.ndarray:
    """Count whole months from one time to another, towards zero."""
    began, ended = start.days, end.days
    one, other = (each.micros() - each.days * SECONDS * 10**6 for each in (start, end))
    ended = ended - ((ended > began) & (other < one)) + ((ended < began) & (other > one))
    months = months_of(ended) - months_of(began)
    apart = months * 32 + day_of_month(ended) - day_of_month(began)
    return np.sign(apart) * (np.abs(apart) // 32)


def is_day(years: np.ndarray, months: np.ndarray, days: np.ndarray) -> np.ndarray:
    """Whether there is such a day."""
    count = (years - 1970) * 12 + months - 1
    length = first_of(count + 1) - first_of(count)
    return (months >= 1) & (months <= 12) & (days >= 1) & (days <= length)


def day_number(years: np.ndarray, months: np.ndarray, days: np.ndarray) -> np.ndarray:
    """Count days since 1970-01-01."""
    return first_of((years - 1970) * 12 + months - 1) + days - 1


def truncated(times: Times, unit: str) -> Times:
    """Give the beginning of the unit (singular, lower case) that each time is in."""
    days = times.days
    if unit == "week":
        return replace(times, ticks=monday(days) * times.per_day)
    if unit in MONTHS:
        size = MONTHS[unit]
        return replace(times, ticks=first_of(months_of(days) // size * size) * times.per_day)
    size = times.per_day * MICROS[unit] // (SECONDS * 10**6)
    return replace(times, ticks=times.ticks // size * size) if size > 1 else times


def next_unit(times: Times, unit: str) -> Times:
    """Give the beginning of the next unit, for times that are beginnings."""
    if unit in MONTHS:
        size = np.full(1, MONTHS[unit])
        return replace(times, ticks=plus_months(times.days, size) * times.per_day)
    return replace(times, ticks=times.ticks + times.per_day * MICROS[unit] // (SECONDS * 10**6))


MONTHS = {"month": 1, "quarter": 3, "year": 12}
MICROS = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": 10**6,
    "minute": 60 * 10**6,
    "hour": 3600 * 10**6,
    "day": SECONDS * 10**6,
    "week": 7 * SECONDS * 10**6,
}
_SHORT = {
    "yyyy": "year", "yy": "year", "mon": "month", "mm": "month", "dd": "day", "mi": "minute",
    "dayofyear": "day", "us": "microsecond", "ms": "millisecond",
}  # fmt: skip


def unit_named(name: str) -> str | None:
    """Find a unit by any of its names; None where there is none."""
    word = name.strip().lower()
    word = _SHORT.get(word, word)
    if word not in MONTHS and word not in MICROS:
        word = word.removesuffix("s")
    return word if word in MONTHS or word in MICROS else None
