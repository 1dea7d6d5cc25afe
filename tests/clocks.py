"""A clock that a test sets."""


class Clock:
    """Shows the time that it was set to, in the units of who asks."""

    def __init__(self, now: float = 1_000_000) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
