"""Represent Java's regular expressions as a tree over ranges of code points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

MOST = 0x10FFFF
LINE_ENDS = "\n\r\x85\u2028\u2029"
Ranges: TypeAlias = tuple[tuple[int, int], ...]


class PatternError(Exception):
    """Tells what is wrong with a pattern, at which character (from 1), and its remedy."""

    def __init__(self, place: int, problem: str) -> None:
        super().__init__(f"at character {place + 1}: {problem}")


@dataclass(frozen=True)
class Chars:
    """One of some characters.

    Attributes:
        ranges: code points from and to, ascending, apart.
        terms: RE2's names of further ones, such as ``\\p{L}``; none names an end of a line.
        negated: whether all others are meant.
    """

    ranges: Ranges = ()
    terms: frozenset[str] = frozenset()
    negated: bool = False


@dataclass(frozen=True)
class Assertion:
    """A condition on a place: ``^``, ``$``, ``z`` (the end of the text), ``b`` or ``B``."""

    kind: str


@dataclass(frozen=True)
class Group:
    """A part with a number, or without one."""

    number: int | None
    body: Node


@dataclass(frozen=True)
class Sequence:
    """Parts one after the other."""

    parts: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Choice:
    """The first of some parts that leads to a match."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """A part so many times."""

    body: Node
    least: int
    most: int | None
    lazy: bool


Node: TypeAlias = Chars | Assertion | Group | Sequence | Choice | Repeat


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sort ranges and join those that touch."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return tuple(found)


def inverted(ranges: Ranges) -> Ranges:
    """Give all other code points."""
    found, next_one = [], 0
    for low, high in ranges:
        if low > next_one:
            found.append((next_one, low - 1))
        next_one = high + 1
    if next_one <= MOST:
        found.append((next_one, MOST))
    return tuple(found)


def of(letters: str) -> Ranges:
    """Give ranges written as ``az09_``: pairs of first and last characters."""
    pairs = zip(letters[::2], letters[1::2], strict=True)
    return merged((ord(low), ord(high)) for low, high in pairs)


def has(ranges: Ranges, letter: str) -> bool:
    """Whether a character is in ranges."""
    return any(low <= ord(letter) <= high for low, high in ranges)


def with_other_case(ranges: Ranges) -> Ranges:
    """Add the other case of ASCII letters."""
    letters = [chr(code) for code in range(128) if chr(code).isalpha() and has(ranges, chr(code))]
    return merged((*ranges, *((ord(each.swapcase()),) * 2 for each in letters)))


def empty_part(node: Node) -> Node | None:
    """Give the conditions under which a tree matches nothing at a place; None if never."""
    match node:
        case Chars():
            return None
        case Assertion():
            return node
        case Group(_, body):
            return _around(body)
        case Sequence(parts):
            found = [empty_part(each) for each in parts]
            return None if None in found else Sequence(tuple(each for each in found if each))
        case Choice(parts):
            some = [each for each in map(empty_part, parts) if each is not None]
            return Group(None, Choice(tuple(some))) if some else None
        case Repeat(body, least, _, _):
            return Sequence() if least == 0 else _around(body)


def _around(body: Node) -> Node | None:
    inside = empty_part(body)
    return inside and Group(None, inside)


def empty_last(node: Node) -> bool:
    """Whether a tree matches nothing only where it can match nothing else."""
    match node:
        case Group(_, body):
            return empty_last(body)
        case Sequence(parts):
            return all(map(empty_last, parts))
        case Choice(parts):
            return empty_last(parts[-1]) and all(empty_part(each) is None for each in parts[:-1])
        case Repeat(body, _, _, lazy):
            return not lazy and empty_last(body)
    return True


def groups_of(node: Node, inside: bool = False) -> Iterator[int]:
    """Give the groups whose last turn RE2 and Java tell apart: in repeats of what may be empty."""
    if isinstance(node, Repeat):
        inside = inside or (node.most != 1 and empty_part(node.body) is not None)
    if inside and isinstance(node, Group) and node.number is not None:
        yield node.number
    for each in _parts_of(node):
        yield from groups_of(each, inside)


def _parts_of(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Sequence | Choice):
        return node.parts
    return (node.body,) if isinstance(node, Group | Repeat) else ()


def any_node(node: Node, wanted: Callable[[Node], bool]) -> bool:
    """Whether some part of a tree is wanted."""
    return wanted(node) or any(any_node(each, wanted) for each in _parts_of(node))
