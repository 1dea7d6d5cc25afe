"""Tell what window functions read of their partition, and when their rows can come.

A call **looks back** where no row after a row (and those equal to it in order) changes its value.
Where the order is event time and rows are only added, the values of such calls are known when the
watermark passes a row: `Over.can_wait`.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.expressions import WindowCall

_NUMBERED = ("row_number", "rank", "dense_rank")
_OF_PARTITIONS = ("percent_rank", "cume_dist", "ntile")
_BY_PLACE = ("row_number", "ntile", "lag", "lead")
_LONGEST = 1 << 61
"""Microseconds of a frame: longer than all time, and still to be added to a time."""
_FRAMELESS = ("lag", "lead", *_NUMBERED, *_OF_PARTITIONS)
"""Window functions that have no frame."""


class Reach(NamedTuple):
    """Count the rows before and after a row that its values depend on."""

    before: int
    after: int


def reach(calls: Iterable[tuple[str, WindowCall]]) -> Reach | None:
    """Find how far calls look; None: through the whole partition."""
    greatest = _greatest([reach_of(call) for _, call in calls])
    return None if greatest is None else Reach(*greatest)


def _greatest(pairs: Sequence[tuple[int, int] | None]) -> tuple[int, int] | None:
    """Give the greatest of each number, 0 at least; None where a pair is not known."""
    known = [(0, 0), *(each for each in pairs if each is not None)]
    if len(known) <= len(pairs):
        return None
    return max(first for first, _ in known), max(second for _, second in known)


def reach_of(call: WindowCall) -> Reach | None:
    """Find how far a call looks; None: through the whole partition."""
    if call.function in ("lag", "lead"):
        ahead = _ahead(call)
        return None if call.ignore_nulls else Reach(max(-ahead, 0), max(ahead, 0))
    start, end = call.frame.start, call.frame.end
    if _is_numbering(call) or call.frame.unit != "rows" or start is None or end is None:
        return None
    return Reach(max(-int(start), 0), max(int(end), 0))


def goes_on(call: WindowCall) -> bool:
    """Whether a call looks through the whole partition, but its value and those of the rows from
    there on follow from the value of the row before.
    """
    return call.function in _NUMBERED or (_is_until_now(call) and facts(call.function).runs)


def is_average_so_far(call: WindowCall) -> bool:
    """Whether a call is the average of the rows so far: of their sum and count."""
    known = facts(call.function)
    return _is_until_now(call) and known.is_mean and not known.tries


def looks_back(call: WindowCall) -> bool:
    """Whether no row that comes after a row, and after its equals in order, changes its value."""
    if call.function in ("lag", "lead"):
        return _ahead(call) <= 0
    if _is_numbering(call):
        return call.function in _NUMBERED
    return call.frame.end is not None and call.frame.end <= 0


class History(NamedTuple):
    """Bounds what is kept of a partition for the rows that come: the last, or those near in time.

    Attributes:
        rows: how many of the last ones.
        micros: for how long of event time.
    """

    rows: int
    micros: int


NOTHING = History(0, 0)


def history(calls: Iterable[tuple[str, WindowCall]]) -> History | None:
    """Find what calls that look back need of the rows so far; None: all of them."""
    greatest = _greatest([_history_of(call) for _, call in calls])
    return None if greatest is None else History(*greatest)


def _history_of(call: WindowCall) -> History | None:
    near = reach_of(call)
    if near is not None:
        return History(near.before, 0)
    if goes_on(call) or is_average_so_far(call):
        return History(1, 0)
    known = facts(call.function)
    if _is_until_now(call) and known.is_place and known.is_last:
        return NOTHING
    start = call.frame.start
    framed = call.function not in ("lag", "lead") and not _is_numbering(call)
    if framed and call.frame.unit == "range" and start is not None:
        return History(0, min(max(-int(start), 0), _LONGEST))
    return None


def _ahead(call: WindowCall) -> int:
    offset = int(call.parameters[0].value) if call.parameters else 1
    return offset if call.function == "lead" else -offset


def _is_numbering(call: WindowCall) -> bool:
    return call.function in (*_NUMBERED, *_OF_PARTITIONS)


def _is_until_now(call: WindowCall) -> bool:
    """Whether a call is over all rows so far, NULLs among them."""
    ignores = call.ignore_nulls or any(each.value is True for each in call.parameters)
    until_now = call.frame.start is None and call.frame.end == 0
    return until_now and not ignores and call.udf is None and not _is_numbering(call)


def tells_equals_apart(call: WindowCall) -> bool:
    """Whether values of rows that are equal in order depend on which of them came first."""
    if call.function in _BY_PLACE or facts(call.function).by_arrival:
        return True
    whole = call.frame.start is None and call.frame.end is None
    return not _is_numbering(call) and call.frame.unit == "rows" and not whole


def sees_none_after(call: WindowCall) -> bool:
    """Whether a call sees no row that stands after its own, not even its equals."""
    if call.function in _FRAMELESS:
        return call.function == "row_number"
    end = call.frame.end
    return call.frame.unit == "rows" and end is not None and end <= 0
