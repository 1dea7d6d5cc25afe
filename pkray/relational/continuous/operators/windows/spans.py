"""Spans of time of which each holds what lies at most a gap apart: sessions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pkray.columns.keys import argsort, begins


@dataclass(frozen=True)
class Spans:
    """Spans of parts of the rows, the parts being numbered.

    Attributes:
        parts: int64, one a span.
        starts, lasts: int64, the times of the first and the last row.
    """

    parts: np.ndarray
    starts: np.ndarray
    lasts: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, numbers: np.ndarray) -> Spans:
        """Take spans by number."""
        return Spans(self.parts[numbers], self.starts[numbers], self.lasts[numbers])


def joined(*several: Spans) -> Spans:
    """Put spans one behind the other."""
    nothing = np.zeros(0, np.int64)
    return Spans(
        np.concatenate([nothing, *(each.parts for each in several)]),
        np.concatenate([nothing, *(each.starts for each in several)]),
        np.concatenate([nothing, *(each.lasts for each in several)]),
    )


def merged(spans: Spans, gap: int) -> tuple[Spans, np.ndarray]:
    """Make one of spans of a part that are at most a gap apart.

    Returns:
        the spans, in the order of parts and times; into which each of the given ones went.
    """
    if not len(spans):
        return spans, np.zeros(0, np.int64)
    order = argsort([spans.parts, spans.starts], len(spans))
    parts, starts, lasts = spans.parts[order], spans.starts[order], spans.lasts[order]
    first = begins([parts], len(order))
    furthest = _furthest(np.cumsum(first), lasts)
    first[1:] |= starts[1:] > furthest[:-1] + gap
    begin = np.flatnonzero(first)
    end = np.append(begin[1:], len(order)) - 1
    of_span = np.empty(len(order), np.int64)
    of_span[order] = np.cumsum(first) - 1
    return Spans(parts[begin], starts[begin], furthest[end]), of_span


def _furthest(parts: np.ndarray, lasts: np.ndarray) -> np.ndarray:
    """Find the greatest time of each part so far."""
    by_time = np.argsort(lasts, kind="stable")
    ranks = np.empty_like(by_time)
    ranks[by_time] = np.arange(len(lasts))
    greatest = np.maximum.accumulate(parts * len(lasts) + ranks) % len(lasts)
    result: np.ndarray = lasts[by_time[greatest]]
    return result


def touch(spans: Spans, times: np.ndarray, parts: np.ndarray, gap: int) -> np.ndarray:
    """Whether times are in a span of their part, or at most a gap from it.

    Args:
        spans: more than a gap apart.
    """
    if not len(spans):
        return np.zeros(len(times), bool)
    every = np.concatenate([spans.parts, parts])
    begin = np.concatenate([spans.starts - gap, times])
    is_time = np.r_[np.zeros(len(spans), np.int64), np.ones(len(times), np.int64)]
    order = argsort([every, begin, is_time], len(every))
    # the last span that begins before has the greatest end of all before
    latest = np.maximum.accumulate(np.where(order < len(spans), np.arange(len(order)), -1))
    span = np.where(latest < 0, -1, order[latest])
    near = (span >= 0) & (spans.parts[span] == every[order])
    near &= begin[order] <= spans.lasts[span] + gap
    result = np.empty(len(order), bool)
    result[order] = near
    return result[len(spans) :]
