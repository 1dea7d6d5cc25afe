"""Limit how long an owner holds sessions whose writers say nothing."""

from collections.abc import Callable

from pkray.service.protocol import SessionId
from pkray.service.timing.elapsed import elapsed

LOOK_SECONDS = 1.0
"""How often it is looked for leases that have run out, and how often writers renew theirs."""


def beat_seconds(lease_millis: int) -> float:
    """Choose how often to do so where leases may be short."""
    return min(LOOK_SECONDS, lease_millis / 4000)


class Leases:
    """Runs out for sessions that nobody renewed for some time. Thread-safe.

    Time in which this process did not run does not count, nor when somebody set the clock: nobody
    could be heard then.

    Args:
        millis: how long a session is held after it was last renewed.
        clock: epoch milliseconds.
    """

    def __init__(self, millis: int, clock: Callable[[], int]) -> None:
        self._millis = millis
        self._clock = clock
        self._renewed: dict[SessionId, int] = {}
        self._looked = 0

    def __contains__(self, session_id: SessionId) -> bool:
        return session_id in self._renewed

    def __len__(self) -> int:
        return len(self._renewed)

    def renew(self, session_id: SessionId) -> None:
        """Hold a session, from now on for as long as a lease lasts."""
        self._renewed[session_id] = self._clock()

    def end(self, session_id: SessionId) -> None:
        """Forget a session."""
        self._renewed.pop(session_id, None)

    def run_out(self) -> list[SessionId]:
        """Return the sessions whose lease has run out; to be called some times in a lease."""
        now, looked = self._clock(), self._looked
        self._looked = now
        held = list(self._renewed.items())
        if elapsed(looked, now, self._millis // 2):
            self._renewed.update((session_id, now) for session_id, _ in held)
            return []
        return [session_id for session_id, at in held if now - at >= self._millis]
