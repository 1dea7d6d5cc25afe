"""The time of day, as tables keep it."""

import time


def now_millis() -> int:
    """Return epoch milliseconds."""
    return time.time_ns() // 1_000_000
