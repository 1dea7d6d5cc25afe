"""Lets lookups go before what copies files behind them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

PIECE_WAIT_SECONDS = 0.05
"""A piece of a copy waits no longer: where lookups are under way at any time, copies end too."""


class LookupsFirst:
    """Counts the lookups under way, which share the interpreter with copies. Thread-safe."""

    def __init__(self) -> None:
        self._under_way = 0
        self._changed = threading.Condition()

    @contextmanager
    def looking_up(self) -> Iterator[None]:
        """Go before copies until the block ends."""
        with self._changed:
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                if not self._under_way:
                    self._changed.notify_all()

    def let_go_first(self) -> None:
        """Wait until no lookup is under way, for a moment at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, PIECE_WAIT_SECONDS)
