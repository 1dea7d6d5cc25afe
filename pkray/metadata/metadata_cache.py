"""Decoded snapshots and manifests in the memory of a process, bounded by bytes."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

CACHED_BYTES = 64 << 20
"""Kept in a process: some 30,000 data files in manifests."""
_SAMPLE = 8
"""Items of a list that are measured; the others are about as large."""


class MetadataCache:
    """Values by key; the least recently used go first, and none takes more than half. Thread-safe.

    Args:
        capacity: in bytes.
    """

    def __init__(self, capacity: int = CACHED_BYTES) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._held: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def nbytes(self) -> int:
        """Bytes of all values, about."""
        return self._bytes

    def get(self, key: Hashable) -> Any:
        """Return a value; None where it is not held."""
        with self._lock:
            held = self._held.get(key)
            if held is None:
                return None
            self._held.move_to_end(key)
            return held[0]

    def put(self, key: Hashable, value: Any) -> None:
        """Hold a value in the place of the one before."""
        size = bytes_of(value) + bytes_of(key)
        with self._lock:
            self._drop(key)
            if size > self._capacity // 2:
                return
            self._held[key] = value, size
            self._bytes += size
            while self._bytes > self._capacity:
                self._bytes -= self._held.popitem(last=False)[1][1]

    def forget(self, keys: Iterable[Hashable]) -> None:
        """Let go of what is of no use any more."""
        with self._lock:
            for key in keys:
                self._drop(key)

    def _drop(self, key: Hashable) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self._bytes -= held[1]


def bytes_of(value: Any) -> int:
    """Estimate the memory that a decoded value takes, of long lists by a sample."""
    size = sys.getsizeof(value)
    if isinstance(value, msgspec.Struct):
        return size + sum(bytes_of(getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, Mapping):
        return size + _sampled(list(value)) + _sampled(list(value.values()))
    if isinstance(value, tuple | list):
        return size + _sampled(value)
    return size


def _sampled(items: Sequence[Any]) -> int:
    measured = items[:: -(-len(items) // _SAMPLE)] if items else ()
    return sum(map(bytes_of, measured)) * len(items) // max(len(measured), 1)


metadata = MetadataCache()
"""What this process holds."""
