"""Asking again while an owner or the coordinator restarts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from pkray.errors import ServiceUnavailableError

T = TypeVar("T")


def persist(work: Callable[[], T], patience_seconds: float) -> T:
    """Repeat work that does no harm when done twice.

    Args:
        patience_seconds: since the call; what was begun by then is ended.

    Raises:
        ServiceUnavailableError: still.
    """
    began = time.monotonic()
    try:
        return work()  # asking for one key takes about as long as making ready to repeat it
    except ServiceUnavailableError:
        patience_seconds -= time.monotonic() - began
        if patience_seconds <= 0:
            raise
    attempts = Retrying(
        retry=retry_if_exception_type(ServiceUnavailableError),
        wait=wait_exponential_jitter(multiplier=0.1, max=2.0),
        stop=stop_after_delay(patience_seconds),
        reraise=True,
    )
    return attempts(work)
