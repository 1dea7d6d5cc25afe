"""Ends what a command would do for ever."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn


@contextmanager
def until_ended() -> Iterator[None]:
    """Do what lasts until Ctrl-C or SIGTERM, which supervisors send: both end it as it ends."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _interrupt) if is_main else None
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
