"""All matches of regular expressions in a batch of texts, by Arrow's kernels of RE2.

Arrow finds the first match, or replaces all. So each match is replaced by itself between bytes that
UTF-8 never has, and the places of these bytes are the matches: one pass over the batch, however
many there are. RE2 leaves out an empty match at the end of another one, which Java finds: where a
pattern can match nothing, a second pass finds the places where it does (`Pattern.re2_empty`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError, QueryError
from pkray.relational.functions.text.java_pattern_tree import LINE_ENDS, PatternError
from pkray.relational.functions.text.java_patterns import LineEnd, Pattern, parsed
from pkray.relational.functions.text.slices import bytes_of, characters_before, join_bytes
from pkray.relational.functions.values import from_numpy
from pkray.relational.plan.expressions import Expression, Literal

OPEN, MIDDLE, CLOSE = b"\xfe", b"\xfd", b"\xff"
MOST_GROUPS = 8
"""RE2 names groups of replaced text by one digit, and one is all that matches."""
_STAND_INS = [chr(plane * 0x10000 + end) for plane in range(1, 17) for end in (0xFFFE, 0xFFFF)]
"""Code points that no text is to have."""


def pattern_of(name: str, text: str) -> Pattern:
    """Read a pattern of a function.

    Raises:
        EvaluationError: there is no such pattern; its place, and what to write instead.
    """
    try:
        found = parsed(text)
        pc.match_substring_regex(pa.array([""]), found.re2())
    except (PatternError, pa.ArrowInvalid) as error:
        raise EvaluationError(
            f"{name} cannot use the regular expression {text!r}: {error}", function=name
        ) from None
    return found


def refuse_pattern(name: str, pattern: Expression) -> None:
    """Refuse a constant that is no pattern when a call is bound.

    Raises:
        QueryError: as `pattern_of`.
    """
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        try:
            pattern_of(name, pattern.value)
        except EvaluationError as error:
            raise QueryError(error.message, function=name) from None


@dataclass(frozen=True)
class Matches:
    """The matches in texts, by row and place.

    Attributes:
        rows: int64, one a match.
        starts: int64, one a match: bytes from the first text's beginning; `stops` likewise.
        data: bytes that `part_starts` and `part_stops` cut what was written for each match from.
    """

    rows: Any
    starts: Any
    stops: Any
    data: Any
    part_starts: Any
    part_stops: Any

    def parts(self) -> pa.Array:
        """Give what was written for each match."""
        return join_bytes(self.data, self.part_starts, self.part_stops, pa.string())

    def taken(self, chosen: Any) -> Matches:
        """Give some of them: places, or booleans."""
        return Matches(
            self.rows[chosen], self.starts[chosen], self.stops[chosen], self.data,
            self.part_starts[chosen], self.part_stops[chosen],
        )  # fmt: skip


def all_matches(
    texts: pa.Array, pattern: Pattern, end: LineEnd | None,
    new: bytes = b"", groups: tuple[int, ...] = (), plain: bytes = b"",
) -> Matches:  # fmt: skip
    """Find all matches, as Java does.

    Args:
        new: what is written for each; ``\\2`` is the first of `groups`, ``\\3`` the next.
        plain: the same for a match of nothing, whose groups are empty.
    """
    captured = tuple(dict.fromkeys(groups))
    inside = pattern.re2(captured, end)
    found = _marked(texts, f"({inside})", OPEN + b"\\1" + MIDDLE + new + CLOSE)
    empty = pattern.re2_empty(end)
    if empty is None or not len(found.rows):
        return found
    codes, ends = found.starts + found.rows, found.stops + found.rows
    places = _marked(texts, f"({empty})", OPEN + b"\\1" + MIDDLE + CLOSE)
    more = (ends > codes) & ~np.isin(ends, codes) & np.isin(ends, places.starts + places.rows)
    if not more.any():
        return found
    count, size = int(more.sum()), len(found.data)
    rows = np.concatenate((found.rows, found.rows[more]))
    starts = np.concatenate((found.starts, found.stops[more]))
    stops = np.concatenate((found.stops, found.stops[more]))
    part_starts = np.concatenate((found.part_starts, np.full(count, size)))
    part_stops = np.concatenate((found.part_stops, np.full(count, size + len(plain))))
    data = np.concatenate((found.data, np.frombuffer(plain, np.uint8)))
    order = np.argsort(starts + rows, kind="stable")
    return Matches(rows, starts, stops, data, part_starts, part_stops).taken(order)


def _marked(texts: pa.Array, expression: str, new: bytes) -> Matches:
    made = pc.replace_substring_regex(texts, expression, new)
    offsets, raw = bytes_of(made)
    low, high = offsets[0], offsets[-1]
    body = raw[low:high]
    opens, middles, closes = (
        np.flatnonzero(body == mark[0]) + low for mark in (OPEN, MIDDLE, CLOSE)
    )
    rows = np.searchsorted(offsets, opens, "right") - 1
    written = closes - middles + 2
    before = np.concatenate(([0], np.cumsum(written)))
    first = np.searchsorted(opens, offsets[:-1])
    origin = bytes_of(texts)[0]
    starts = opens - offsets[rows] - (before[:-1] - before[first[rows]]) + origin[rows] - origin[0]
    stops = starts + middles - opens - 1
    return Matches(rows, starts, stops, raw, middles + 1, closes)


# Ends of lines


def by_line_end(
    texts: pa.Array,
    pattern: Pattern,
    compute: Callable[[pa.Array, LineEnd | None], pa.Array],
    restore: Callable[[pa.Array, LineEnd], pa.Array] | None = None,
) -> pa.Array:
    """Compute rows whose last line has an end apart, where a pattern has ``$``.

    Args:
        restore: puts the characters back for which others stand.
    """
    ended = None
    if pattern.has_end:
        ended = pc.match_substring_regex(texts, _class(LINE_ENDS) + r"\z").fill_null(False)
    if ended is None or not pc.any(ended).as_py():
        return compute(texts, None)
    stand_in = _absent(texts)
    places, results = [pc.invert(ended)], [compute(texts.filter(pc.invert(ended)), None)]
    for first in LINE_ENDS:
        last = {"\r": r"\r\n?", "\n": r"(?:\A|[^\r])\n"}.get(first, _class(first))
        chosen = pc.match_substring_regex(texts, last + r"\z").fill_null(False)
        if not pc.any(chosen).as_py():
            continue
        end = LineEnd(first, stand_in)
        found = compute(_placed(texts.filter(chosen), end), end)
        results.append(restore(found, end) if restore else found)
        places.append(chosen)
    order = np.concatenate([np.flatnonzero(np.asarray(each)) for each in places])
    return pa.concat_arrays(results).take(pa.array(np.argsort(order)))


def _class(letters: str) -> str:
    return "[" + "".join(f"\\x{{{ord(each):x}}}" for each in letters) + "]"


def _absent(texts: pa.Array) -> str:
    for letter in _STAND_INS:
        if not pc.any(pc.match_substring(texts, letter)).as_py():
            return letter
    raise EvaluationError("texts with all of Unicode's noncharacters cannot be matched with $")


def _placed(texts: pa.Array, end: LineEnd) -> pa.Array:
    moved = pc.replace_substring(texts, "\n", end.stand_in)
    first = _class(end.stand_in if end.first == "\n" else end.first)
    rest = f"({_class(end.stand_in)}?)" if end.first == "\r" else "()"
    return pc.replace_substring_regex(moved, rf"{first}{rest}\z", "\n\\1")


def restored(texts: pa.Array, end: LineEnd) -> pa.Array:
    """Put the characters back for which others stand."""
    first = texts if end.first == "\n" else pc.replace_substring(texts, "\n", end.first)
    return pc.replace_substring(first, end.stand_in, "\n")


def restored_lists(lists: pa.Array, end: LineEnd) -> pa.Array:
    """Put characters back in lists of texts."""
    flat = restored(lists.values, end)
    made = pa.ListArray.from_arrays(lists.offsets, flat)
    return made if not lists.null_count else pc.if_else(
        lists.is_valid(), made, pa.scalar(None, made.type)
    )  # fmt: skip


# What functions ask for


def matching(texts: pa.Array, pattern: Pattern) -> pa.Array:
    """Tell whether a part of each text matches."""
    return by_line_end(
        texts, pattern, lambda some, end: pc.match_substring_regex(some, pattern.re2((), end))
    )


def first_places(texts: pa.Array, pattern: Pattern) -> pa.Array:
    """Give the position (INT, from 1) of the first match; 0 where there is none."""

    def compute(some: pa.Array, end: LineEnd | None) -> pa.Array:
        at = pc.find_substring_regex(some, pattern.re2((), end))
        before = np.where(at.fill_null(-1).to_numpy() < 0, 0, characters_before(some, at) + 1)
        return from_numpy(before, [some], pa.int32(), len(some))

    return by_line_end(texts, pattern, compute)


def first_parts(texts: pa.Array, pattern: Pattern, group: int) -> pa.Array:
    """Give what a group (0: all) of the first match is; NULL where there is no match."""

    def compute(some: pa.Array, end: LineEnd | None) -> pa.Array:
        return pc.struct_field(pc.extract_regex(some, pattern.re2_part(group, end)), 0)

    return by_line_end(texts, pattern, compute, restored)


def counts(texts: pa.Array, pattern: Pattern) -> pa.Array:
    """Count matches (INT)."""

    def compute(some: pa.Array, end: LineEnd | None) -> pa.Array:
        rows = all_matches(some, pattern, end).rows
        found = np.bincount(rows, minlength=len(some)).astype(np.int32)
        return pa.array(found, mask=np.asarray(some.is_null()))

    return by_line_end(texts, pattern, compute)


def all_parts(texts: pa.Array, pattern: Pattern, group: int) -> pa.Array:
    """Give what a group (0: all) of each match is."""

    def compute(some: pa.Array, end: LineEnd | None) -> pa.Array:
        found = all_matches(some, pattern, end, b"\\2", (group,))
        return _lists(some, found.rows, found.parts())

    return by_line_end(texts, pattern, compute, restored_lists)


def _lists(texts: pa.Array, rows: Any, parts: pa.Array) -> pa.Array:
    size = np.bincount(rows, minlength=len(texts))
    offsets = pa.array(np.concatenate(([0], np.cumsum(size))).astype(np.int32))
    mask = texts.is_null() if texts.null_count else None
    return pa.ListArray.from_arrays(offsets, parts, mask=mask)


def split_at(texts: pa.Array, pattern: Pattern, limit: int) -> pa.Array:
    """Split texts where the pattern matches.

    Args:
        limit: the most parts; 0 and below: as many as there are.
    """
    if not pattern.text:
        return _characters(texts, limit)
    if not re.search(r"[\\.^$|?*+()\[\]{}]", pattern.text):
        return pc.split_pattern(texts, pattern.text, max_splits=limit - 1 if limit > 0 else -1)

    def compute(some: pa.Array, end: LineEnd | None) -> pa.Array:
        found = all_matches(some, pattern, end)
        offsets, raw = bytes_of(some)
        valid = np.asarray(some.is_valid())
        starts, stops = offsets[:-1], offsets[1:]
        at_once = (found.stops + offsets[0] == starts[found.rows]) & (found.starts == found.stops)
        found = found.taken(~at_once)
        if limit > 0:
            first = np.searchsorted(found.rows, np.arange(len(some)))
            number = np.arange(len(found.rows)) - first[found.rows]
            found = found.taken(number < limit - 1)
        known = np.flatnonzero(valid)
        rows = np.concatenate((known, found.rows))
        order = np.argsort(rows, kind="stable")
        begins = np.concatenate((starts[known], found.stops + offsets[0]))[order]
        last = np.argsort(np.concatenate((found.rows, known)), kind="stable")
        ends = np.concatenate((found.starts + offsets[0], stops[known]))[last]
        return _lists(some, rows[order], join_bytes(raw, begins, ends, pa.string()))

    return by_line_end(texts, pattern, compute, restored_lists)


def _characters(texts: pa.Array, limit: int) -> pa.Array:
    """Make a list of the characters of each text, the last with the rest; '' of no text."""
    offsets, raw = bytes_of(texts)
    valid = np.asarray(texts.is_valid())
    begins = np.flatnonzero((raw[offsets[0] : offsets[-1]] & 0xC0) != 0x80) + offsets[0]
    rows = np.searchsorted(offsets, begins, side="right") - 1
    number = np.arange(len(rows)) - np.searchsorted(rows, np.arange(len(texts)))[rows]
    chosen = valid[rows] if limit <= 0 else valid[rows] & (number < limit)
    empty = np.flatnonzero(valid & (offsets[1:] == offsets[:-1]))
    rows = np.concatenate((rows[chosen], empty))
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    begins = np.concatenate((begins[chosen], offsets[empty]))[order]
    is_last = np.append(rows[1:] != rows[:-1], True)[: len(rows)]
    ends = np.where(is_last, offsets[1:][rows], np.append(begins[1:], 0)[: len(rows)])
    return _lists(texts, rows, join_bytes(raw, begins, ends, pa.string()))


@dataclass(frozen=True)
class Replacement:
    """Takes the place of matches.

    Attributes:
        pieces: texts, and numbers of groups.
    """

    pieces: tuple[str | int, ...]

    @property
    def groups(self) -> tuple[int, ...]:
        """The groups it takes from a match, each once."""
        return tuple(sorted({each for each in self.pieces if isinstance(each, int)}))

    def written(self, end: LineEnd | None, first: int) -> bytes:
        """Write it for RE2; the first group captured has the number `first`."""
        return b"".join(
            b"\\%d" % (self.groups.index(each) + first)
            if isinstance(each, int)
            else _standing(each, end).replace("\\", "\\\\").encode()
            for each in self.pieces
        )

    def plain(self, end: LineEnd | None) -> bytes:
        """Write it for a match of nothing."""
        texts = [_standing(each, end) for each in self.pieces if isinstance(each, str)]
        return "".join(texts).encode()


def _standing(text: str, end: LineEnd | None) -> str:
    """Write text so that `restored` gives it."""
    return text.replace("\n", end.stand_in) if end else text


def replaced(texts: pa.Array, pattern: Pattern, new: Replacement) -> pa.Array:
    """Put something in the place of all matches."""

    def compute(some: pa.Array, end: LineEnd | None) -> pa.Array:
        if pattern.empty is None:
            inside = pattern.re2(new.groups, end)
            return pc.replace_substring_regex(some, inside, new.written(end, 1))
        found = all_matches(some, pattern, end, new.written(end, 2), new.groups, new.plain(end))
        return _spliced(some, found)

    return by_line_end(texts, pattern, compute, restored)


def _spliced(texts: pa.Array, found: Matches) -> pa.Array:
    """Put what was written for each match in its place."""
    offsets, raw = bytes_of(texts)
    rows, none = np.arange(len(texts)), np.zeros(len(texts), np.int64)
    by_stop = np.argsort(np.concatenate((found.rows, rows)), kind="stable")
    by_start = np.argsort(np.concatenate((rows, found.rows)), kind="stable")
    starts = np.concatenate((offsets[:-1], found.stops + offsets[0]))[by_start]
    stops = np.concatenate((found.starts + offsets[0], offsets[1:]))[by_stop]
    part_starts = np.concatenate((found.part_starts, none))[by_stop] + len(raw)
    part_stops = np.concatenate((found.part_stops, none))[by_stop] + len(raw)
    pieces = join_bytes(
        np.concatenate((raw, found.data, np.zeros(1, np.uint8))),
        np.stack([starts, part_starts], axis=1).ravel(),
        np.stack([stops, part_stops], axis=1).ravel(),
        pa.binary(),
    )
    size = 2 * (np.bincount(found.rows, minlength=len(texts)) + 1)
    cuts = bytes_of(pieces)[0][np.concatenate(([0], np.cumsum(size)))].astype(np.int32)
    buffers = [None, pa.py_buffer(cuts), pieces.buffers()[2]]
    made = pa.Array.from_buffers(pa.string(), len(texts), buffers)
    return pc.if_else(texts.is_valid(), made, pa.scalar(None, pa.string()))
