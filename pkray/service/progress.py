"""Tells calls that take long from calls that hang, by the processor time of their threads.

Whoever works uses some, if only to wait for the next answer of the storage; a stopped process, a
deadlock and a request that is never answered use none.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")

START = "start"
"""The group of what makes the object that is called."""
LOOKUPS = "lookup"
"""The group of lookups, whatever their group is: each is watched by itself."""

_HELPERS: dict[str, tuple[str, ...]] = {
    "write": ("write", "prepare", "assign"),
    "prepare": ("prepare", "compact"),
    "compact": ("compact", "prepare", "commit"),
    "assign": ("assign", "write"),
    "commit": ("commit", "compact", "ask"),
    "ask": ("ask", "commit", "compact"),
}
"""By group of calls: the groups that such a call may have to wait for. Others wait for all.

Calls that are short and come again and again are in none: they would hide that others hang."""


class WorkingThreads:
    """Threads that are at work: ``with`` it, one is. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: dict[int, int] = {}
        self._begun = 0
        self._ended = 0

    def __enter__(self) -> None:
        with self._lock:
            self._threads[threading.get_ident()] = self._begun
            self._begun += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._threads.pop(threading.get_ident(), None)
            self._ended += 1

    def sign(self) -> Hashable:
        """Return a sign of life: another one whenever something has been done."""
        with self._lock:  # a thread that has ended has no clock
            return self._ended, tuple((t, _processor_time(t)) for t in sorted(self._threads))

    def times(self) -> tuple[tuple[int, int], ...]:
        """Return a number for each work that is under way, and its processor time."""
        with self._lock:
            return tuple((number, _processor_time(t)) for t, number in self._threads.items())


BESIDE_CALLS = WorkingThreads()
"""Those of this process that work for no call, but that calls may wait for."""


class CallProgress:
    """The progress of the calls of one owner or coordinator."""

    def __init__(self) -> None:
        self._groups: defaultdict[str, WorkingThreads] = defaultdict(WorkingThreads)

    def at(self, group: str) -> WorkingThreads:
        """Note a call of the group while the thread that enters this runs it."""
        return self._groups[group]

    def sign(self, group: str | None) -> Hashable:
        """Return a sign of life: another one whenever a call of the group may have got on.

        That of `LOOKUPS` is `WorkingThreads.times`.
        """
        if group == LOOKUPS:
            return self._groups[LOOKUPS].times()
        all_groups = sorted(self._groups.keys() - {START, LOOKUPS})
        groups = (START, *(_HELPERS.get(group or "") or all_groups))
        return BESIDE_CALLS.sign(), tuple(self._groups[name].sign() for name in groups)


def in_group(group: str, method: Callable[..., T]) -> Callable[..., T]:
    """Bind the method of an object with a `CallProgress` as ``progress``, noted there while it
    runs."""

    @wraps(method)
    def noted(self: Any, *args: Any, **kwargs: Any) -> T:
        with self.progress.at(group):
            return method(self, *args, **kwargs)

    return noted


def _processor_time(thread: int) -> int:
    """Nanoseconds; of the whole process on systems that do not tell of threads."""
    clock_of = getattr(time, "pthread_getcpuclockid", None)
    return time.process_time_ns() if clock_of is None else time.clock_gettime_ns(clock_of(thread))
