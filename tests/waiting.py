"""Wait for what comes about by itself."""

import time
from collections.abc import Callable


def wait_until(reached: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait until something is so.

    Raises:
        AssertionError: it is not, after so many seconds.
    """
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"not so after {seconds} s"
        time.sleep(0.01)
