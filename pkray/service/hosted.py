"""Work that goes on by itself, hosted where a runtime has its services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pkray.errors import ServiceUnavailableError


class Hosted(Protocol):
    """Something that works until it is stopped."""

    def status(self) -> dict[str, Any]:
        """Say what it does."""

    def wait(self, reached: Callable[[dict[str, Any]], bool], seconds: float) -> bool:
        """Wait until the status is as wanted; false where it takes longer, or has ended."""

    @property
    def is_running(self) -> bool:
        """Whether it may still do something."""

    def keep(self, seconds: float = 60.0) -> bool:
        """Write down what it has; false where that takes longer."""

    def stop(self, seconds: float = 60.0) -> bool:
        """End it; false where that takes longer."""

    def close(self) -> None:
        """Stop it, as its process or runtime ends."""


class Room:
    """The memory of hosted work, as its host divides it among all.

    Attributes:
        used: bytes that it holds, as the work says.
        in_flight: bytes that are on their way through it.
        bound: says how many of the bytes that the work would take it may take now.
    """

    def __init__(self) -> None:
        self.used = self.in_flight = 0
        self.bound: Callable[[int], int] = lambda wanted: wanted


class WorkLostError(ServiceUnavailableError):
    """The process of the work has ended, as by a crash; it is begun anew in another."""


class Caller(Protocol):
    """Calls methods of work in another process."""

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method; what it gives, or the error, comes later.

        An error of the process or of the way to it is a `ServiceUnavailableError`.
        """


@dataclass(frozen=True)
class Reserved:
    """Reserves processors and memory for a process.

    Attributes:
        cpus: processors; parts of one are possible.
        memory: bytes.
    """

    cpus: float = 0.0
    memory: int = 0


NOTHING = Reserved()


@runtime_checkable
class Hosting(Protocol):
    """A runtime that hosts work in processes which outlive this one."""

    @property
    def processors(self) -> int:
        """Count the processors of all machines."""

    @property
    def options(self) -> dict[str, Any]:
        """With what a process of the cluster opens a runtime like this one."""

    @property
    def silent_seconds(self) -> float:
        """For how long a process may be silent before it is replaced."""

    def pooled(self, warehouse: str, storage_options: Mapping[str, Any]) -> Hosting:
        """Give what hosts work in the processes that all tables of a warehouse share."""

    def host(
        self, name: str, make: Callable[..., Any], *arguments: Any, reserved: Reserved = NOTHING
    ) -> Hosted:
        """Find the work of this name, or begin it.

        Args:
            make: makes it in its process, and again when that was lost: `Hosted`, or what is
                called by `caller` alone.
            arguments: of `make`.
            reserved: for its process.
        """

    def caller(self, name: str) -> Caller:
        """Call methods of the work of this name.

        Raises:
            ServiceUnavailableError: there is none.
        """

    def replace(self, name: str) -> None:
        """Kill the process of the work of this name; it is begun again in another."""

    def hosted(self, name: str) -> Hosted | None:
        """Find the work of this name; None where there is none."""

    def end(self, name: str) -> None:
        """End the process of the work of this name, and those whose names go on with a slash."""
