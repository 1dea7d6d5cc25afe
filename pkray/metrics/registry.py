"""Keeps the series of this process."""

import logging
import threading
import time
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from pkray.metrics import collection
from pkray.metrics.memory import machine_memory_share, process_memory
from pkray.metrics.metric import Metric
from pkray.metrics.names import (
    WORKER_MACHINE_MEMORY_RATIO,
    WORKER_MEMORY_BYTES,
    WORKER_START_TIME_SECONDS,
)

_log = logging.getLogger(__name__)
_BEGAN = time.time()

Read: TypeAlias = Callable[[], Iterable[collection.Reading]]
"""Reads what an object counts for itself: a method of it."""


class _Buckets:
    """A histogram's series."""

    __slots__ = ("counts", "total")

    def __init__(self, bounds: int) -> None:
        self.counts = [0] * (bounds + 1)
        self.total = 0.0


Key: TypeAlias = tuple[Metric, collection.Labels, str]
"""A series, and the warehouse whose table or query it is of."""


class _Kept:
    """The series of a registry, and what its objects count for themselves."""

    def __init__(self) -> None:
        self.numbers: dict[Key, float] = {}
        self.buckets: dict[Key, _Buckets] = {}
        self.readers: dict[int, tuple[weakref.WeakMethod[Read], str]] = {}
        self.lock = threading.Lock()


class Meter:
    """Counters, gauges and histograms by their labels. Thread-safe.

    Counting takes a microsecond: call it for a batch, never for a row.

    Args:
        warehouse: the URL of the one whose tables and queries it counts, as two may have some of
            the same name; "" where it counts what belongs to the process.
    """

    def __init__(self, kept: _Kept, warehouse: str) -> None:
        self._kept = kept
        self._warehouse = warehouse

    def count(self, metric: Metric, amount: float, *labels: str) -> None:
        """Add to a counter."""
        key, kept = (metric, labels, self._warehouse), self._kept
        with kept.lock:
            kept.numbers[key] = kept.numbers.get(key, 0.0) + amount

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Set a gauge."""
        with self._kept.lock:
            self._kept.numbers[metric, labels, self._warehouse] = value

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Add a value to a histogram."""
        key, place = (metric, labels, self._warehouse), bisect_left(metric.bounds, value)
        with self._kept.lock:
            found = self._kept.buckets.get(key)
            if found is None:
                found = self._kept.buckets[key] = _Buckets(len(metric.bounds))
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
        with self._kept.lock:
            self._kept.readers[id(method)] = method, self._warehouse

    def unwatch(self, read: Read) -> None:
        """Read an object's counts for the last time, as it ends: its counters stay."""
        readers = self._kept.readers
        with self._kept.lock:
            there = [key for key, (method, _) in readers.items() if method() == read]
            for key in there:
                del readers[key]
        for metric, labels, value in _read(read) if there else ():
            if metric.kind == "counter":
                self.count(metric, value, *labels)


class Registry(Meter):
    """Counts for a process, and by `of` for each warehouse."""

    def __init__(self) -> None:
        super().__init__(_Kept(), "")

    def of(self, warehouse: str) -> Meter:
        """Give what counts for a warehouse, by its URL."""
        return Meter(self._kept, warehouse.rstrip("/"))

    def forget(self, is_gone: collection.IsGone) -> None:
        """End the series of what is gone."""
        kept = self._kept

        def goes_on(key: Key) -> bool:
            metric, labels, _ = key
            return not collection.any_gone(metric, labels, is_gone)

        with kept.lock:
            kept.numbers = {key: each for key, each in kept.numbers.items() if goes_on(key)}
            kept.buckets = {key: each for key, each in kept.buckets.items() if goes_on(key)}

    def collect(self, warehouse: str | None = None) -> collection.Collected:
        """Give the series of this moment.

        Args:
            warehouse: leave out tables and queries of others; None: this process serves one.
        """
        found: collection.Collected = {}
        chosen = None if warehouse is None else warehouse.rstrip("/")

        def is_chosen(metric: Metric, of: str) -> bool:
            return chosen is None or of == chosen or not metric.is_of_warehouse

        def add(metric: Metric, labels: collection.Labels, value: collection.Value) -> None:
            series = found.setdefault(metric.name, {})
            series[labels] = collection.added(series[labels], value) if labels in series else value

        kept = self._kept
        with kept.lock:
            for (metric, labels, of), number in kept.numbers.items():
                if is_chosen(metric, of):
                    add(metric, labels, number)
            for (metric, labels, of), buckets in kept.buckets.items():
                if is_chosen(metric, of):
                    add(
                        metric,
                        labels,
                        collection.Distribution(tuple(buckets.counts), buckets.total),
                    )
            readers = list(kept.readers.items())
        for key, (method, of) in readers:
            read = method()
            if read is None:
                with kept.lock:
                    kept.readers.pop(key, None)
                continue
            for metric, labels, value in _read(read):
                if is_chosen(metric, of):
                    add(metric, labels, value)
        return found


def _read(read: Read) -> list[collection.Reading]:
    try:
        return list(read())
    except Exception as error:  # what is closing meanwhile is no reason to show nothing
        _log.debug("metrics of %r are left out: %s", read, error)
        return []


class _Process:
    """Reads what the operating system says of this process."""

    def read(self) -> Iterator[collection.Reading]:
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
