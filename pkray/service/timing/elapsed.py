"""Time that has gone by, on a clock that somebody may set back."""


def elapsed(since: int, now: int, millis: int) -> bool:
    """Whether so long has passed; so it has, as far as anyone knows, where ``now`` is earlier.

    Args:
        since, now: epoch milliseconds.
    """
    return not 0 <= now - since < millis
