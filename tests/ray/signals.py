"""Signals to processes of a service, which may be gone: parts share them, and they are replaced."""

import contextlib
import os
import signal
from collections.abc import Iterator


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, if it is there still."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def kill(pid: int) -> None:
    """End a process at once, if it is there still."""
    send(pid, signal.SIGKILL)


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Do without a process until the end, when it wakes, if it is there still."""
    send(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        send(pid, signal.SIGCONT)
