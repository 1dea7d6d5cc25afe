"""Threads that many owners share."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures import wait as wait_for
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class SharedExecutor(Executor):
    """One owner's part in threads that others use too. Shut down, it leaves them to the others.

    Args:
        threads: runs the work.
    """

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self._futures: set[Future[Any]] = set()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future = self._threads.submit(fn, *args, **kwargs)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for this owner's work."""
        futures = list(self._futures)
        for future in futures if cancel_futures else ():
            future.cancel()
        if wait:
            wait_for(futures)
