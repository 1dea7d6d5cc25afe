"""Keeps the series of this process."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from pkray.metrics.collection import (
    Collected,
    Distribution,
    IsGone,
    Labels,
    Reading,
    Value,
    added,
    any_gone,
)
from pkray.metrics.memory import machine_memory_share, process_memory
from pkray.metrics.metric import Metric
from pkray.metrics.names import (
    WORKER_MACHINE_MEMORY_RATIO,
    WORKER_MEMORY_BYTES,
    WORKER_START_TIME_SECONDS,
)

_log = logging.getLogger(__name__)
_BEGAN = time.time()

Read: TypeAlias = Callable[[], Iterable[Reading]]
"""Reads what an object counts for itself: a method of it."""


class _Buckets:
    """A histogram's series."""

    __slots__ = ("counts", "total")

    def __init__(self, bounds: int) -> None:
        self.counts = [0] * (bounds + 1)
        self.total = 0.0


class Registry:
    """Counters, gauges and histograms by their labels. Thread-safe.

    Counting takes a microsecond: call it for a batch, never for a row.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[Metric, Labels], float] = {}
        self._buckets: dict[tuple[Metric, Labels], _Buckets] = {}
        self._readers: dict[int, weakref.WeakMethod[Read]] = {}
        self._lock = threading.Lock()

    def count(self, metric: Metric, amount: float, *labels: str) -> None:
        """Add to a counter."""
        key = (metric, labels)
        with self._lock:
            self._numbers[key] = self._numbers.get(key, 0.0) + amount

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Set a gauge."""
        with self._lock:
            self._numbers[metric, labels] = value

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Add a value to a histogram."""
        key, place = (metric, labels), bisect_left(metric.bounds, value)
        with self._lock:
            found = self._buckets.get(key)
            if found is None:
                found = self._buckets[key] = _Buckets(len(metric.bounds))
            found.counts[place] += 1
            found.total += value

    @contextmanager
    def timed(self, metric: Metric, *labels: str) -> Iterator[None]:
        """Add the seconds that the block takes to a histogram, however it ends."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.observe(metric, time.perf_counter() - begun, *labels)

    def watch(self, read: Read) -> None:
        """Read an object's own counts at each collection, until it is let go of.

        Args:
            read: a method; the object is not kept by it.
        """
        method = weakref.WeakMethod(read)
        with self._lock:
            self._readers[id(method)] = method

    def unwatch(self, read: Read) -> None:
        """Read an object's counts for the last time, as it ends: its counters stay."""
        with self._lock:
            there = [key for key, method in self._readers.items() if method() == read]
            for key in there:
                del self._readers[key]
        for metric, labels, value in self._read(read) if there else ():
            if metric.kind == "counter":
                self.count(metric, value, *labels)

    def forget(self, is_gone: IsGone) -> None:
        """End the series of what is gone."""
        with self._lock:
            self._numbers = {
                key: value for key, value in self._numbers.items() if not any_gone(*key, is_gone)
            }
            self._buckets = {
                key: value for key, value in self._buckets.items() if not any_gone(*key, is_gone)
            }

    def collect(self) -> Collected:
        """Give all series of this moment."""
        found: Collected = {}

        def add(metric: Metric, labels: Labels, value: Value) -> None:
            series = found.setdefault(metric.name, {})
            series[labels] = added(series[labels], value) if labels in series else value

        with self._lock:
            for (metric, labels), number in self._numbers.items():
                add(metric, labels, number)
            for (metric, labels), buckets in self._buckets.items():
                add(metric, labels, Distribution(tuple(buckets.counts), buckets.total))
            readers = list(self._readers.items())
        for key, method in readers:
            read = method()
            if read is None:
                with self._lock:
                    self._readers.pop(key, None)
                continue
            for reading in self._read(read):
                add(*reading)
        return found

    @staticmethod
    def _read(read: Read) -> list[Reading]:
        try:
            return list(read())
        except Exception as error:  # what is closing meanwhile is no reason to show nothing
            _log.debug("metrics of %r are left out: %s", read, error)
            return []


class _Process:
    """Reads what the operating system says of this process."""

    def read(self) -> Iterator[Reading]:
        yield WORKER_START_TIME_SECONDS, (), _BEGAN
        taken, share = process_memory(), machine_memory_share()
        if taken is not None:
            yield WORKER_MEMORY_BYTES, ("process",), float(taken)
        if share is not None:
            yield WORKER_MACHINE_MEMORY_RATIO, (), share


REGISTRY = Registry()
"""This process's."""
_PROCESS = _Process()
REGISTRY.watch(_PROCESS.read)
