"""Decoded snapshots and manifests in the memory of a process, bounded by bytes."""

import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from pkray.errors import OptionError
from pkray.options.values import size

CACHED_BYTES = 64 << 20
"""Kept in a process where `VARIABLE` says nothing: some 30,000 data files in manifests."""
VARIABLE = "PKRAY_METADATA_CACHE"
"""Of the environment: the process has one cache, whatever warehouses it opens."""
_ALLOWED = size("64 kb")
_SAMPLE = 8
"""Items of a list that are measured; the others are about as large."""


class MetadataCache:
    """Values by key; the least recently used go first, and none takes more than half. Thread-safe.

    Args:
        capacity: in bytes; None: as of `cached_bytes`, once something is held.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self._given = capacity
        self._lock = threading.Lock()
        self._held: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    @cached_property
    def _capacity(self) -> int:
        return cached_bytes() if self._given is None else self._given

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
        taken = bytes_of(value) + bytes_of(key)
        with self._lock:
            self._drop(key)
            if taken > self._capacity // 2:
                return
            self._held[key] = value, taken
            self._bytes += taken
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


def cached_bytes() -> int:
    """Read how many bytes a process keeps: what the environment says, or 64 MB.

    Raises:
        OptionError: what it says is no size of at least 64 kb.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return CACHED_BYTES
    try:
        return int(_ALLOWED.parse(text))
    except ValueError as error:
        raise OptionError(
            f"the environment variable {VARIABLE} cannot be {text!r}: give {_ALLOWED.allowed}",
            key=VARIABLE,
            value=text,
        ) from error


def bytes_of(value: Any) -> int:
    """Estimate the memory that a decoded value takes, of long lists by a sample."""
    own = sys.getsizeof(value)
    if isinstance(value, msgspec.Struct):
        return own + sum(bytes_of(getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, Mapping):
        return own + _sampled(list(value)) + _sampled(list(value.values()))
    if isinstance(value, tuple | list):
        return own + _sampled(value)
    return own


def _sampled(items: Sequence[Any]) -> int:
    measured = items[:: -(-len(items) // _SAMPLE)] if items else ()
    return sum(map(bytes_of, measured)) * len(items) // max(len(measured), 1)


metadata = MetadataCache()
"""What this process holds."""
