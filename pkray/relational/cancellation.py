"""Ends bounded runs that nobody waits for any more: cancelled, or left by who read them.

Each thread knows the tokens of what it computes for. What takes long asks them between two pieces
of its work, `checkpoint`, so that a run ends within a piece.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from pkray.errors import QueryCancelledError

_THREAD = threading.local()
Tokens: TypeAlias = "tuple[Cancellation, ...]"


class Cancellation:
    """Cancels runs of relations from another thread: ``rel.to_arrow(cancellation=token)``."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def __repr__(self) -> str:
        return f"Cancellation(is_cancelled={self.is_cancelled})"

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._asked.is_set()

    def cancel(self) -> None:
        """Let the runs end: they raise QueryCancelledError, most within a second."""
        self._asked.set()


def tokens() -> Tokens:
    """Give the tokens of what this thread computes for."""
    found: Tokens = getattr(_THREAD, "tokens", ())
    return found


@contextmanager
def under(*added: Cancellation) -> Iterator[None]:
    """Compute for some tokens too."""
    before = tokens()
    _THREAD.tokens = (*before, *added)
    try:
        yield
    finally:
        _THREAD.tokens = before


def checkpoint() -> None:
    """End here if what this thread computes is not wanted any more.

    Raises:
        QueryCancelledError: one of its tokens was cancelled.
    """
    for each in tokens():
        if each.is_cancelled:
            raise QueryCancelledError("the query was cancelled while it ran: run it again")
