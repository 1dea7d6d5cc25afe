"""The memory of a worker, shared by the owners and the work that it hosts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

_LEAST = 8 << 20
"""What each owner may use in any case: smaller files would cost more than they spare."""
_COUNTED_SECONDS = 0.1
"""How long a count is good: batches of rows come more often."""


class Uses(Protocol):
    """Says how much memory it uses."""

    @property
    def memory_bytes(self) -> int: ...


class WorkerMemory:
    """Bounds what all owners of a worker hold of rows. Thread-safe.

    An owner may take what others leave, and `_LEAST` in any case. Rows that are kept for
    compactions leave half of it to those that are not committed. Work has half of it: each an equal
    share, and what others leave of theirs.

    Args:
        limit: bytes.
        owners: those that use it now, by their numbers.
        work: as owners.
        clock: seconds.
    """

    def __init__(
        self,
        limit: int,
        owners: Callable[[], Mapping[int, Uses]],
        clock: Callable[[], float] = time.monotonic,
        work: Callable[[], Mapping[int, Uses]] = dict,
    ) -> None:
        self._limit = limit
        self._owners = owners
        self._work = work
        self._clock = clock
        self._counted: tuple[float, dict[int, int]] = (-_COUNTED_SECONDS, {})

    def share(self, number: int) -> OwnerShare:
        """Make an owner's share."""
        return OwnerShare(self, number)

    def left(self, limit: int, number: int) -> int:
        """Say what an owner may use of so many bytes, as others use the rest."""
        return limit - sum(used for each, used in self._used().items() if each != number)

    def for_work(self, wanted: int, number: int) -> int:
        """Say what work may use of the bytes that it would use."""
        used = {each: work.memory_bytes for each, work in self._work().items()}
        used[number] = 0
        half = self._limit // 2
        equal = half // len(used)
        left = half - sum(min(each, equal) for each in used.values())
        return min(wanted, max(_LEAST, left))

    @property
    def limit(self) -> int:
        return self._limit

    def _used(self) -> dict[int, int]:
        at, used = self._counted
        now = self._clock()
        if now - at >= _COUNTED_SECONDS:
            users = {**self._owners(), **self._work()}
            used = {number: each.memory_bytes for number, each in users.items()}
            self._counted = now, used
        return used


class OwnerShare:
    """Bounds what one owner may use: see `Memory`."""

    def __init__(self, memory: WorkerMemory, number: int) -> None:
        self._memory = memory
        self._number = number

    def for_rows(self, wanted: int) -> int:
        return min(wanted, max(_LEAST, self._memory.left(self._memory.limit, self._number)))

    def for_flushed(self, wanted: int) -> int:
        return min(wanted, max(0, self._memory.left(self._memory.limit // 2, self._number)))
