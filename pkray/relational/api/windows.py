"""Windows of time, as methods say them: ``Tumble.over("10 minutes").on("bidtime")``."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from pkray.errors import QueryError
from pkray.relational.api.column import Column, expression, listed, shown
from pkray.relational.sql import syntax

_MICROS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
_SHORT = {
    "us": "MICROSECOND",
    "ms": "MILLISECOND",
    "s": "SECOND",
    "sec": "SECOND",
    "m": "MINUTE",
    "min": "MINUTE",
    "h": "HOUR",
    "d": "DAY",
}
_PART = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)
_WRITTEN = ("DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")


def microseconds(duration: object) -> int:
    """Measure a duration.

    Args:
        duration: text (``10 minutes``, ``1 hour 30 min``), ``lit(10).minutes`` or a timedelta.

    Raises:
        QueryError: it is none, or one of months, which have no fixed length.
    """
    if isinstance(duration, dt.timedelta):
        return duration // dt.timedelta(microseconds=1)
    if isinstance(duration, Column):
        return _of_syntax(duration.tree)
    if isinstance(duration, str) and duration.strip():
        parts, end = [], 0
        while match := _PART.match(duration, end):
            parts.append(_span(match[1], match[2], duration))
            end = match.end()
        if parts and end == len(duration):
            return sum(parts)
    raise QueryError(
        f"{duration!r} is no duration: write text such as '10 minutes', lit(10).minutes, or a "
        "timedelta"
    )


def interval(micros: int) -> exp.Interval:
    """Write a duration in the largest unit of which it is a multiple."""
    unit = next(each for each in _WRITTEN if micros % _MICROS[each] == 0)
    return syntax.interval(micros // _MICROS[unit], unit)


def _of_syntax(tree: exp.Expr) -> int:
    if isinstance(tree, exp.Neg):
        return -_of_syntax(tree.this)
    if isinstance(tree, exp.Paren):
        return _of_syntax(tree.this)
    if isinstance(tree, exp.Interval) and isinstance(tree.this, exp.Literal):
        return _span(tree.this.name, tree.text("unit"), shown(tree))
    raise QueryError(f"{shown(tree)} is no duration: write lit(10).minutes")


def _span(number: str, unit: str, said: str) -> int:
    name = _SHORT.get(unit.lower(), unit.upper().removesuffix("S"))
    if name not in _MICROS:
        raise QueryError(
            f"{said!r} is in {unit}: a duration is in weeks, days, hours, minutes, seconds, "
            "milliseconds or microseconds"
        )
    return round(float(number) * _MICROS[name])


@dataclass(frozen=True)
class Window:
    """Cuts time; made by `Tumble`, `Slide`, `Session` and `Cumulate`.

    Attributes:
        spans: durations in microseconds, as the table function takes them.
        needs: what is still to be said.
    """

    function: str
    spans: tuple[int, ...]
    needs: tuple[str, ...]
    time: Any = None
    shift: int | None = None
    keys: tuple[Any, ...] = ()

    def on(self, time: object) -> Window:
        """Say which column the time is in."""
        return replace(self, time=expression(time), needs=self._without("on"))

    def offset(self, duration: object) -> Window:
        """Let windows begin so much after 1970-01-01 00:00:00."""
        if self.function == "SESSION":
            raise QueryError("sessions have no offset: they begin with their first row")
        return replace(self, shift=microseconds(duration))

    def every(self, duration: object) -> Window:
        """Let a window of `Slide` begin each so often."""
        return self._with_first("HOP", "every", duration)

    def step(self, duration: object) -> Window:
        """Let the windows of `Cumulate` grow by so much."""
        return self._with_first("CUMULATE", "step", duration)

    def partition_by(self, *columns: object) -> Window:
        """Let each value of columns have sessions of its own."""
        if self.function != "SESSION":
            raise QueryError(f"{self.function} windows have no partition_by: it is of Session")
        keys = [each for column in columns for each in listed(column)]
        return replace(self, keys=tuple(expression(each) for each in keys))

    def arguments(self) -> list[exp.Expr]:
        """Write what the table function takes after its table.

        Raises:
            QueryError: something has not been said yet.
        """
        if self.needs:
            raise QueryError(f"the {self.function} window needs .{self.needs[0]}(…) too")
        spans = [*self.spans, *([] if self.shift is None else [self.shift])]
        return [syntax.call("DESCRIPTOR", self.time.copy()), *map(interval, spans)]

    def _with_first(self, function: str, word: str, duration: object) -> Window:
        if self.function != function:
            raise QueryError(f"{self.function} windows have no {word}")
        spans = (microseconds(duration), self.spans[-1])
        return replace(self, spans=_positive(spans), needs=self._without(word))

    def _without(self, word: str) -> tuple[str, ...]:
        return tuple(each for each in self.needs if each != word)


def _positive(spans: tuple[int, ...]) -> tuple[int, ...]:
    if any(span <= 0 for span in spans):
        raise QueryError("a window's durations are greater than zero")
    return spans


class Tumble:
    """Windows of one length, one after the other."""

    @staticmethod
    def over(duration: object) -> Window:
        """Say how long a window is."""
        return Window("TUMBLE", _positive((microseconds(duration),)), ("on",))


class Slide:
    """Windows of one length that overlap: ``Slide.over("1 hour").every("5 minutes").on("ts")``."""

    @staticmethod
    def over(duration: object) -> Window:
        """Say how long a window is."""
        return Window("HOP", _positive((microseconds(duration),)), ("every", "on"))


class Session:
    """Windows that end where no row comes for a while."""

    @staticmethod
    def with_gap(duration: object) -> Window:
        """Say how long that is: a row exactly so much later begins another session."""
        return Window("SESSION", _positive((microseconds(duration),)), ("on",))


class Cumulate:
    """Windows that grow step by step, and begin anew when they are whole."""

    @staticmethod
    def over(duration: object) -> Window:
        """Say how long a whole window is."""
        return Window("CUMULATE", _positive((microseconds(duration),)), ("step", "on"))
