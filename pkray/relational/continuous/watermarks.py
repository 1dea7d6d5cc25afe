"""Follow event time at each operator: as far as the slowest source below it."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

LAST_WATERMARK = 2**62
"""Event time in microseconds at the end of all sources: everything that waits comes."""


class Timed(Protocol):
    """An operator among others, as far as time goes.

    Attributes:
        inputs: numbers of the nodes that it takes changes of.
        watermark: microseconds that its inputs had passed when the epoch began.
        own_watermark: what it says itself of the rows that passed it, where it `tells_time`.
    """

    number: int
    inputs: tuple[int, ...]
    watermark: int | None

    @property
    def tells_time(self) -> bool: ...

    @property
    def own_watermark(self) -> int | None: ...


@dataclass(frozen=True)
class _Reached:
    """Tells how far a node's rows are.

    Attributes:
        sources: numbers of the scans below it.
        has_time: whether anything below it declares a watermark.
    """

    sources: frozenset[int]
    has_time: bool = False
    watermark: int | None = None
    is_idle: bool = False


def next_watermarks(
    scans: Iterable[int], stages: Iterable[Timed], idle: Collection[int] = ()
) -> dict[int, int | None]:
    """Find the event time that each operator's inputs have passed: the least of theirs.

    Inputs whose sources are all idle do not count; where all inputs are, time stays. Inputs that
    declare no watermark never count. Time does not go back.

    Args:
        scans: numbers of the sources' nodes.
        stages: inputs before what takes them.
        idle: numbers of scans.
    """
    reached = {number: _Reached(frozenset([number])) for number in scans}
    for stage in stages:
        inputs = [reached[number] for number in stage.inputs]
        sources = frozenset().union(*(each.sources for each in inputs))
        if stage.tells_time:
            is_idle = sources <= frozenset(idle)
            reached[stage.number] = _Reached(sources, True, stage.own_watermark, is_idle)
            continue
        timed = [each for each in inputs if each.has_time]
        counted = [each.watermark for each in timed if not each.is_idle]
        moved = _least(counted)
        known = [mark for mark in (moved, stage.watermark) if mark is not None]
        is_idle = bool(timed) and not counted
        reached[stage.number] = _Reached(sources, bool(timed), max(known, default=None), is_idle)
    return {stage.number: reached[stage.number].watermark for stage in stages}


def _least(watermarks: Sequence[int | None]) -> int | None:
    """Find the least; None where there is none, or one has not begun."""
    known = [mark for mark in watermarks if mark is not None]
    return min(known) if known and len(known) == len(watermarks) else None
