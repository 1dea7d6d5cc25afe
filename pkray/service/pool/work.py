"""Work of its own accord, as its process hosts it."""

from __future__ import annotations  # an actor's handle carries them to other versions: as text

from collections.abc import Callable
from typing import Any

from pkray import spans
from pkray.service.hosted import Hosted, Room

FENCED = "fenced"
"""The state of work that has found another process at it, and ended."""


class Work:
    """Hosts one piece of work.

    Args:
        make: makes it: `Hosted`, or what is called by `do` alone.
    """

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        self._made: Hosted = make(*arguments)

    def divide(self, bound: Callable[[int], int]) -> None:
        """Have it take no more memory than this allows, of what it would take."""
        room = getattr(self._made, "room", None)
        if isinstance(room, Room):
            room.bound = bound

    @property
    def memory_bytes(self) -> int:
        """Tell how much of its memory it says that it uses."""
        room = getattr(self._made, "room", None)
        return room.used + room.in_flight if isinstance(room, Room) else 0

    @property
    def is_running(self) -> bool:
        """Whether it may still do something."""
        return self._made.is_running

    @property
    def is_fenced(self) -> bool:
        """Whether it has ended as it found that another process is at the same work."""
        return not self._made.is_running and self._made.status().get("state") == FENCED

    def status(self) -> tuple[bool, dict[str, Any]]:
        """Say whether it may still do something, and what it does."""
        return self._made.is_running, self._made.status()

    def keep(self, seconds: float) -> bool:
        """Write down what it has; false where that takes longer."""
        return self._made.keep(seconds)

    def stop(self, seconds: float) -> bool:
        """End it; false where that takes longer."""
        return self._made.stop(seconds)

    def do(self, name: str, *arguments: Any) -> Any:
        """Call a method of it."""
        return getattr(self._made, name)(*arguments)

    def do_within(self, envelope: str, name: str, *arguments: Any) -> Any:
        """Call a method of it for what its caller is at work on."""
        with spans.resumed(envelope):
            return self.do(name, *arguments)

    def close(self) -> None:
        """Stop it, as its process lets go of it."""
        self._made.close()
