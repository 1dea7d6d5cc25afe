"""Calls in the order in which their caller made them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Ticket(NamedTuple):
    """A place among the calls of one caller.

    Args:
        caller: no other caller has it.
        number: 0, 1, 2 …
    """

    caller: str
    number: int


@dataclass
class _Caller(Generic[T]):
    next: int = 0
    waiting: dict[int, T] = field(default_factory=dict)


class InOrder(Generic[T]):
    """Begins calls in their callers' order, though they overtake each other on the way here.

    Not thread-safe.

    Args:
        begin: begins a call.
        most_callers: those that are remembered; the calls of others begin as they come.
    """

    def __init__(self, begin: Callable[[T], None], most_callers: int = 1024) -> None:
        self._begin = begin
        self._most = most_callers
        self._callers: dict[str, _Caller[T]] = {}

    def arrive(self, ticket: Ticket, call: T) -> bool:
        """Begin a call, and those that waited for it; whether it waits for one before it."""
        caller = self._callers.pop(ticket.caller, None) or _Caller()
        self._callers[ticket.caller] = caller  # the last
        if len(self._callers) > self._most:
            self._forget(next(iter(self._callers)))
        caller.waiting[ticket.number] = call
        self._advance(caller)
        return ticket.number in caller.waiting

    def skip(self, caller: str) -> None:
        """Wait no longer for the calls that are missing before one that is here."""
        held = self._callers.get(caller)
        if held is not None and held.waiting:
            held.next = min(held.waiting)
            self._advance(held)

    def _advance(self, caller: _Caller[T]) -> None:
        # What is below was given up, and comes late.
        for number in sorted(caller.waiting):
            if number > caller.next:
                break
            caller.next = max(caller.next, number + 1)
            self._begin(caller.waiting.pop(number))

    def _forget(self, caller: str) -> None:
        held = self._callers.pop(caller)
        for number in sorted(held.waiting):
            self._begin(held.waiting[number])
