"""Tells a server and its log from others that are found under the same address."""

from collections.abc import Mapping
from typing import NamedTuple, Self


class ServerIdentity(NamedTuple):
    """Identifies a server's log.

    Attributes:
        system: PostgreSQL's system identifier, which copies of a server share.
        timeline: of its log: each promotion and each recovery to a moment begins another.
    """

    system: str
    timeline: int

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read what `text` wrote."""
        system, _, timeline = text.partition("/")
        return cls(system, int(timeline))

    @property
    def text(self) -> str:
        """Write it as a property of a commit."""
        return f"{self.system}/{self.timeline}"

    def __str__(self) -> str:
        return f"system {self.system}, timeline {self.timeline}"


def branch_points(history: str) -> Mapping[int, int]:
    """Read where a server's log left its earlier timelines, by their numbers.

    Args:
        history: the content of a timeline's file.
    """
    lines = [line.split() for line in history.splitlines() if line and line[0] != "#"]
    return {int(number): lsn_of(point) for number, point, *_ in lines}


def lsn_of(text: str) -> int:
    """Read a position in the log as PostgreSQL writes it, such as ``0/16B3748``."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(lsn: int) -> str:
    """Write a position in the log as PostgreSQL does."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
