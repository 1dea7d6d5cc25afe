"""Draw for notebooks what the console draws: SVG without scripts, in which every text is escaped.

Strokes and texts take the colour of the page's text, so that light and dark ground show them.
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

_WIDTH, _HEIGHT = 190, 74
_GAP, _DEPTH = 24, 34
"""Between boxes of a row, and between rows."""
_LINE, _MOST_LETTERS = 16, 26
_SWEEPS = 4
"""Over the rows, in which boxes move towards those that they are joined to."""
_BAR, _BAR_HEIGHT, _LABEL = 300, 14, 34
_MOST_BUCKETS = 50
_FILL, _FIRST = "#3b7dd8", "#d08010"
"""Colours of bars: what is compacted, and level 0, which waits for it."""
_BUSY = (("#d0402f", 0.8), ("#d08010", 0.4), ("#3b7dd8", 0.0))
"""Colours of boxes by the share of time above which their operators work."""


@dataclass(frozen=True)
class Box:
    """One operator of a graph.

    Args:
        lines: the first one is bold; long ones are cut.
        title: what a pointer over it shows.
        busy: the share of time that it works, from 0 to 1; None: unknown.
    """

    number: int
    lines: Sequence[str]
    title: str
    busy: float | None = None


@dataclass(frozen=True)
class Level:
    """The files of one level of a bucket, summed up."""

    level: int
    bytes: int
    rows: int
    files: int


def svg_graph(boxes: Sequence[Box], edges: Iterable[tuple[int, int]]) -> str:
    """Draw operators from the top down, with arrows along which rows go."""
    joined = list(edges)
    rows, chains = _rows([each.number for each in boxes], joined)
    centres = _centres(rows, chains)
    left = min(centres.values(), default=0.0) - _WIDTH / 2 - _GAP
    width = max(centres.values(), default=0.0) + _WIDTH / 2 + _GAP - left
    tops = {each: _GAP / 2 + at * (_HEIGHT + _DEPTH) for at, row in enumerate(rows) for each in row}
    height = len(rows) * (_HEIGHT + _DEPTH) - _DEPTH + _GAP
    lines = [_arrow([(centres[each] - left, tops[each]) for each in chain]) for chain in chains]
    drawn = [_box(each, centres[each.number] - left, tops[each.number]) for each in boxes]
    label = f"{len(boxes)} operators"
    return _svg(width, height, label, [*lines, *drawn])


def svg_levels(buckets: Mapping[str, Sequence[Level]]) -> str:
    """Draw the levels of buckets to size: the longest bar is the largest level of all.

    Args:
        buckets: by what they are called; of many, the first ones are drawn.
    """
    most = max((each.bytes for levels in buckets.values() for each in levels), default=0)
    y, parts = _LINE, []
    for name, levels in list(buckets.items())[:_MOST_BUCKETS]:
        parts.append(_text(0, y, name, is_bold=True))
        there = {each.level: each for each in levels}
        for number in range(max(there, default=-1) + 1):
            y += _LINE + 2
            parts += _bar(y, there.get(number, Level(number, 0, 0, 0)), most)
        y += _LINE + 10
    left = len(buckets) - _MOST_BUCKETS
    if left > 0:
        parts.append(_text(0, y, f"and {left:,} more buckets"))
        y += _LINE
    return _svg(_LABEL + _BAR + 260, y, f"levels of {len(buckets):,} buckets", parts)


def bytes_text(size: float) -> str:
    """Write a size for people, as the console does."""
    units, place = ("B", "kB", "MB", "GB", "TB", "PB"), 0
    while size >= 1000 and place < len(units) - 1:
        size, place = size / 1000, place + 1
    return f"{size:,.{1 if size < 10 and place else 0}f} {units[place]}"


def _rows(
    numbers: Sequence[int], edges: Sequence[tuple[int, int]]
) -> tuple[list[list[int]], list[list[int]]]:
    """Place each operator in a row above all that it gives rows to.

    An edge that passes rows has a point in each of them, of a negative number.

    Returns:
        the rows, and the points of each edge.
    """
    after: dict[int, list[int]] = {each: [] for each in numbers}
    for source, target in edges:
        after[source].append(target)
    depth: dict[int, int] = {}
    waiting = list(numbers)
    while waiting:
        number = waiting[-1]
        deeper = [each for each in after[number] if each not in depth]
        waiting += deeper
        if not deeper:
            depth[waiting.pop()] = 1 + max((depth[each] for each in after[number]), default=-1)
    rows: list[list[int]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for number in numbers:
        rows[-1 - depth[number]].append(number)
    chains, points = [], 0
    for source, target in edges:
        passed = range(depth[source] - 1, depth[target], -1)
        between = [-1 - points - at for at in range(len(passed))]
        points += len(between)
        for number, at in zip(between, passed, strict=True):
            rows[-1 - at].append(number)
        chains.append([source, *between, target])
    return rows, chains


def _centres(rows: Sequence[list[int]], chains: Sequence[Sequence[int]]) -> dict[int, float]:
    """Say where each box and point is from left to right: near those that it is joined to."""
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for chain in chains:
        for one, next_one in pairwise(chain):
            below.setdefault(one, []).append(next_one)
            above.setdefault(next_one, []).append(one)
    step = _WIDTH + _GAP
    centres = {each: float(at * step) for row in rows for at, each in enumerate(row)}
    for _ in range(_SWEEPS):
        for joined, order in ((below, rows[::-1]), (above, rows)):
            for row in order:
                wanted = {
                    each: fmean(centres[one] for one in joined.get(each, [each])) for each in row
                }
                row.sort(key=lambda each: wanted[each])
                _spread(row, wanted, centres, step)
    return centres


def _spread(
    row: Sequence[int], wanted: Mapping[int, float], centres: dict[int, float], step: float
) -> None:
    """Keep boxes of a row apart, and the row as a whole where it is wanted."""
    reached = float("-inf")
    for each in row:
        reached = centres[each] = max(wanted[each], reached + step)
    moved = fmean(centres[each] - wanted[each] for each in row)
    for each in row:
        centres[each] -= moved


def _arrow(points: Sequence[tuple[float, float]]) -> str:
    (x, y), *between, (end_x, end_y) = points
    line = f"M{x:.1f} {y + _HEIGHT:.1f}"
    line += "".join(f"L{px:.1f} {py:.1f}L{px:.1f} {py + _HEIGHT:.1f}" for px, py in between)
    head = (
        f"M{end_x - 4:.1f} {end_y - 7:.1f}L{end_x:.1f} {end_y:.1f}L{end_x + 4:.1f} {end_y - 7:.1f}"
    )
    return (
        f'<path d="{line}L{end_x:.1f} {end_y:.1f}{head}" fill="none" stroke="currentColor" '
        'stroke-opacity="0.6"/>'
    )


def _box(box: Box, centre: float, top: float) -> str:
    found = next((colour for colour, above in _BUSY if (box.busy or 0.0) > above), "none")
    lines = [
        _text(9, 18 + at * _LINE, _short(line), is_bold=not at) for at, line in enumerate(box.lines)
    ]
    return (
        f'<g transform="translate({centre - _WIDTH / 2:.1f} {top:.1f})">'
        f"<title>{html.escape(box.title)}</title>"
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{found}" fill-opacity="0.2" '
        f'stroke="currentColor" stroke-opacity="0.6"/>{"".join(lines)}</g>'
    )


def _bar(y: float, level: Level, most: int) -> list[str]:
    said = f"{bytes_text(level.bytes)}, {level.rows:,} rows, {level.files:,} files"
    width = _BAR * level.bytes / most if most else 0
    fill = _FILL if level.level else _FIRST
    return [
        _text(4, y, f"L{level.level}"),
        f'<rect x="{_LABEL}" y="{y - 11}" width="{width:.1f}" height="{_BAR_HEIGHT}" '
        f'fill="{fill}"/>',
        _text(_LABEL + width + 8, y, said),
    ]


def _text(x: float, y: float, text: str, *, is_bold: bool = False) -> str:
    weight = ' font-weight="bold"' * is_bold
    return f'<text x="{x:.1f}" y="{y:.1f}"{weight}>{html.escape(text)}</text>'


def _short(line: str) -> str:
    return line if len(line) <= _MOST_LETTERS else f"{line[: _MOST_LETTERS - 1]}…"


def _svg(width: float, height: float, label: str, parts: Iterable[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{html.escape(label)}" '
        f'font-family="sans-serif" font-size="12" fill="currentColor">{"".join(parts)}</svg>'
    )
