"""Computes batches on several threads, the next while one is read."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from pkray import spans
from pkray.relational.cancellation import Cancellation, checkpoint, tokens, under

THREADS = min(os.cpu_count() or 1, 16)
_THREAD = threading.local()
Rows = TypeVar("Rows")
Made = TypeVar("Made")


def ahead(function: Callable[[Rows], Made], batches: Iterable[Rows]) -> Iterator[Made]:
    """Apply a function to batches on several threads; the order stays.

    When nobody reads on, what the threads still do ends at its next checkpoint.
    """
    if getattr(_THREAD, "works", False):  # a user's function that runs a query: all may wait
        yield from map(function, batches)
        return
    waiting: deque[Future[Made]] = deque()
    left = Cancellation()
    own = (*tokens(), left)

    def computed(batch: Rows) -> Made:
        with under(*own):
            checkpoint()
            return function(batch)

    work = spans.carried(computed)
    try:
        for batch in batches:
            waiting.append(_pool().submit(work, batch))
            if len(waiting) > THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        left.cancel()
        for future in waiting:
            future.cancel()


@cache
def _pool() -> ThreadPoolExecutor:
    def begin() -> None:
        _THREAD.works = True

    pool = ThreadPoolExecutor(THREADS, "pkray-relational", begin)
    # Ctrl-C comes to the main thread. In the middle of its submit it would leave a first thread
    # that the pool does not know of, and the process would wait for it at its end.
    first = threading.Thread(target=pool.submit, args=(int,))
    first.start()
    first.join()
    return pool


os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not live on in a fork
