"""Work that goes on by itself, hosted where a runtime has its services."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable


class Hosted(Protocol):
    """Something that works until it is stopped."""

    def status(self) -> dict[str, Any]:
        """Say what it does."""
        ...

    def wait(self, reached: Callable[[dict[str, Any]], bool], seconds: float) -> bool:
        """Wait until the status is as wanted; false where it takes longer, or has ended."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether it may still do something."""
        ...

    def keep(self, seconds: float = 60.0) -> bool:
        """Write down what it has; false where that takes longer."""
        ...

    def stop(self, seconds: float = 60.0) -> bool:
        """End it; false where that takes longer."""
        ...

    def close(self) -> None:
        """Stop it, as its process or runtime ends."""
        ...


@runtime_checkable
class Hosting(Protocol):
    """A runtime that hosts work in processes which outlive this one."""

    def host(self, name: str, make: Callable[..., Hosted], *arguments: Any) -> Hosted:
        """Find the work of this name, or begin it.

        Args:
            make: makes it in its process, and again when that was lost.
            arguments: of `make`.
        """
        ...

    def hosted(self, name: str) -> Hosted | None:
        """Find the work of this name; None where there is none."""
        ...

    def end(self, name: str) -> None:
        """End the process of the work of this name."""
        ...
