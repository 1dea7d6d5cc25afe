"""Keep what other workers send until this one reads it."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pkray.errors import QueryFencedError, ServiceUnavailableError

LOOK_SECONDS = 1.0
"""Between two looks, while nothing comes, whether others are still there."""
WAIT_SECONDS = 900.0
"""For how long a worker waits for what another sends: that may have a large part of an epoch to
compute. Whoever dies is missed by the leader long before."""


class Letter(NamedTuple):
    """Carries what one worker sends another.

    Attributes:
        run: number of the run of the query; what comes from others is dropped.
        step: number of the exchange since the run began.
        sender: number of the worker.
        content: changes, or numbers.
    """

    run: int
    step: int
    sender: int
    content: Any


class Mailbox:
    """Keeps letters until they are taken. For any number of threads.

    Args:
        run: number of the run of the query.
        look: called now and then while a letter is waited for; it may call `fail`.
    """

    def __init__(self, run: int, look: Callable[[], None] = lambda: None) -> None:
        self.run = run
        self._look = look
        self._letters: dict[tuple[int, int], Letter] = {}
        self._changed = threading.Condition()
        self._error: Exception | None = None

    def put(self, letter: Letter) -> None:
        """Take in a letter.

        Raises:
            QueryFencedError: it is of another run.
        """
        if letter.run != self.run:
            raise QueryFencedError(
                f"run {letter.run} of a query sends to run {self.run}, which took over: it stops",
                run=str(letter.run),
            )
        with self._changed:
            self._letters[letter.step, letter.sender] = letter
            self._changed.notify_all()

    def take(self, step: int, senders: Sequence[int]) -> list[Any]:
        """Wait for a letter of each sender, and give what they hold.

        Raises:
            ServiceUnavailableError: one sends nothing for too long.
            Exception: the one that `fail` was told.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        wanted = [(step, sender) for sender in senders]
        while not self._has(wanted, deadline):
            self._look()
        with self._changed:
            return [self._letters.pop(each).content for each in wanted]

    def _has(self, wanted: Sequence[tuple[int, int]], deadline: float) -> bool:
        """Wait for letters; false where it is time for a look."""
        with self._changed:
            while not all(each in self._letters for each in wanted):
                if self._error is not None:
                    raise self._error
                left = deadline - time.monotonic()
                if left <= 0:
                    missing = [each[1] for each in wanted if each not in self._letters]
                    raise ServiceUnavailableError(
                        f"workers {missing} of a query have sent nothing for {WAIT_SECONDS:.0f} s"
                    )
                if not self._changed.wait(min(left, LOOK_SECONDS)):
                    return False
            return True

    def fail(self, error: Exception) -> None:
        """End all waiting, now and later, with an error; of several the first counts."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()
