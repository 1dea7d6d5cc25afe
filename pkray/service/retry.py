"""Asking again while an owner or the coordinator restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from pkray.errors import ServiceUnavailableError

T = TypeVar("T")
PATIENCE_SECONDS = 60.0


def persist(work: Callable[[], T], patience_seconds: float = PATIENCE_SECONDS) -> T:
    """Repeat work that does no harm when done twice.

    Raises:
        ServiceUnavailableError: still, after ``patience_seconds``.
    """
    try:
        return work()  # asking for one key takes about as long as making ready to repeat it
    except ServiceUnavailableError:
        pass
    attempts = Retrying(
        retry=retry_if_exception_type(ServiceUnavailableError),
        wait=wait_exponential_jitter(multiplier=0.1, max=2.0),
        stop=stop_after_delay(patience_seconds),
        reraise=True,
    )
    return attempts(work)
