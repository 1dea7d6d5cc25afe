"""Decide which sources are idle, and which wait for slower ones.

Both depend on the clock. What is decided is written down with each epoch, so that the epoch is the
same when it is run again.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from pkray.errors import OptionError
from pkray.options.reading import ReadingOptions

_MICROS = 1000


@dataclass(frozen=True)
class Pace:
    """Reads the pace of a source from its options.

    Attributes:
        idle_timeout: milliseconds without rows after which it is idle; 0: never; None: not said.
        group: of sources that wait for each other; None: it waits for none.
        max_drift: how far it may be ahead of the slowest of them: microseconds of event time.
        update_interval: milliseconds between looks at the slowest.
    """

    idle_timeout: int | None = None
    group: str | None = None
    max_drift: int = 0
    update_interval: int = 1000

    @classmethod
    def from_options(cls, options: ReadingOptions) -> Self:
        """Read the options.

        Raises:
            OptionError: a group without a bound.
        """
        drift = options.watermark_alignment_max_drift
        if options.watermark_alignment_group is not None and drift is None:
            raise OptionError(
                "scan.watermark.alignment.group needs scan.watermark.alignment.max-drift: how far "
                "a source may be ahead of the slowest of its group",
                key="scan.watermark.alignment.max-drift",
            )
        return cls(
            options.watermark_idle_timeout,
            options.watermark_alignment_group,
            _MICROS * (drift or 0),
            options.watermark_alignment_update_interval,
        )


class SourceTimes:
    """Follows when rows of each source came.

    Args:
        paces: of the sources that tell time, by their names.
        idle_timeout: of sources that say none: milliseconds; 0: never.
        now: epoch milliseconds.
    """

    def __init__(self, paces: Mapping[str, Pace], idle_timeout: int, now: int) -> None:
        self._paces = paces
        self._idle_timeout = idle_timeout
        self._since = dict.fromkeys(paces, now)
        self._limits: dict[str, tuple[int, int]] = {}

    @property
    def names(self) -> set[str]:
        """Name the sources that tell time."""
        return set(self._paces)

    def note(self, names: Iterable[str], now: int) -> None:
        """Note that sources are not idle: their rows came, or they wait for others."""
        self._since.update((name, now) for name in names if name in self._paces)

    def idle(self, now: int) -> frozenset[str]:
        """List the sources of which no rows have come for so long."""
        return frozenset(
            name
            for name, since in self._since.items()
            if (timeout := self._timeout(name)) and now - since >= timeout
        )

    def _timeout(self, name: str) -> int:
        said = self._paces[name].idle_timeout
        return self._idle_timeout if said is None else said

    def held(
        self, watermarks: Mapping[str, int], left: Collection[str], now: int
    ) -> frozenset[str]:
        """List the sources that are not read: too far ahead of the slowest of their group.

        Args:
            watermarks: event time in microseconds by source; one that has none holds nobody back.
            left: sources that count no more: idle ones, and those that have ended.
        """
        return frozenset(
            name
            for name, mark in watermarks.items()
            if (pace := self._paces[name]).group is not None
            and mark > self._limit(pace, watermarks, left, now)
        )

    def _limit(
        self, pace: Pace, watermarks: Mapping[str, int], left: Collection[str], now: int
    ) -> int:
        """Give the greatest watermark that a source of a group may have to be read."""
        assert pace.group is not None
        at, least = self._limits.get(pace.group, (-pace.update_interval, 0))
        if now - at >= pace.update_interval:
            group = {name for name, each in self._paces.items() if each.group == pace.group}
            counted = [mark for name, mark in watermarks.items() if name in group - set(left)]
            least = min(counted, default=max(watermarks.values()))
            self._limits[pace.group] = (now, least)
        return least + pace.max_drift
