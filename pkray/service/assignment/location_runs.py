"""Sorted runs of keys with their locations: in memory while they are small, else mapped files.

Arrays on the local disk, mapped and searched by numpy, answer sorted batches of keys several times
as fast as a RocksDB of an entry a key, and take no memory that the system cannot have back. A file
has no name once it is mapped: it is gone with the last reference, or with the process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, Any

import numpy as np

from pkray.service.client.key_ids import Bools, Ints, KeyIds, Words, join
from pkray.storage.private_files import not_kept, private_directory

NOWHERE = np.uint64(2**64 - 1)
"""The location of a key that is not known."""
DELETED = np.uint64(2**64 - 2)
"""The location of a key that was there."""

CHUNK_ROWS = 1 << 19
"""Keys of a run that are held at a time where it is read whole."""
MEMORY_ROWS = 1 << 18
"""Runs of up to so many keys stay in memory."""
_EMPTY = np.zeros(0, np.uint64)


@dataclass(frozen=True)
class LocationRun:
    """Distinct keys in the order of their ids, each with its location."""

    keys: KeyIds
    locations: Words

    @property
    def count(self) -> int:
        return len(self.locations)

    def find(self, wanted: KeyIds) -> Words:
        """Find the location of each key: uint64; `NOWHERE` where it is not here.

        Args:
            wanted: in order.
        """
        found = np.full(wanted.count, NOWHERE)
        if not self.count:
            return found
        at = np.searchsorted(self.keys.high, wanted.high)
        rows = np.arange(wanted.count)
        while len(rows):  # more than once only where keys share the upper half of their ids
            there = at[rows] < self.count
            rows = rows[there]
            held = at[rows]
            same = self.keys.high[held] == wanted.high[rows]
            rows, held = rows[same], held[same]
            hit = self.keys.low[held] == wanted.low[rows]
            found[rows[hit]] = self.locations[held[hit]]
            rows = rows[~hit]
            at[rows] += 1
        return found

    def chunks(self) -> Iterator[LocationRun]:
        """Yield the run in pieces."""
        for start in range(0, self.count, CHUNK_ROWS):
            yield self._between(start, start + CHUNK_ROWS)

    def cut(self, bounds: Ints) -> Iterator[LocationRun]:
        """Yield the pieces between these positions, ascending."""
        for start, end in pairwise(bounds.tolist()):
            yield self._between(start, end)

    def _between(self, start: int, end: int) -> LocationRun:
        piece = slice(start, end)
        return LocationRun(self.keys.at(piece), self.locations[piece])


def merged(older: LocationRun, newer: LocationRun) -> Iterator[LocationRun]:
    """Merge both runs, piece by piece; of a key in both the newer location stays."""
    larger = max(older, newer, key=lambda run: run.count)
    cuts = np.unique(larger.keys.high[CHUNK_ROWS::CHUNK_ROWS])
    pieces = zip(
        *(
            run.cut(np.concatenate(([0], np.searchsorted(run.keys.high, cuts), [run.count])))
            for run in (older, newer)
        ),
        strict=True,
    )
    for old, new in pieces:
        keys = join([old.keys, new.keys])
        if not keys.count:
            continue
        order = keys.order()
        ordered = keys.at(order)
        locations = np.concatenate((old.locations, new.locations))[order]
        is_last = np.append(ordered.firsts()[1:], True)
        yield LocationRun(ordered.at(is_last), locations[is_last])


def save(pieces: Iterable[LocationRun], directory: str, expected: int) -> LocationRun:
    """Save the pieces as one run: in memory, or in files if it may have more than `MEMORY_ROWS`.

    Raises:
        StorageFullError: the local disk is full.
        StorageError: it cannot be written.
    """
    if expected <= MEMORY_ROWS:
        held = list(pieces)
        keys = join([piece.keys for piece in held]) if held else _NONE.keys
        return LocationRun(keys, np.concatenate([_NONE.locations, *(p.locations for p in held)]))
    try:
        return _save(pieces, directory)
    except OSError as error:
        raise not_kept("keep the index of the table's keys in", directory, error) from error


def _save(pieces: Iterable[LocationRun], directory: str) -> LocationRun:
    private_directory(directory)
    count = 0
    with ExitStack() as files:
        columns = [files.enter_context(tempfile.TemporaryFile(dir=directory)) for _ in range(3)]
        for piece in pieces:
            for file, values in zip(
                columns, (piece.keys.high, piece.keys.low, piece.locations), strict=True
            ):
                file.write(np.ascontiguousarray(values).data)
            count += piece.count
        high, low, locations = (_mapped(file, count) for file in columns)
    return LocationRun(KeyIds(high, low), locations)


def _mapped(file: IO[bytes], count: int) -> Words:
    file.flush()
    if not count:
        return _NONE.locations
    values: Any = np.memmap(file, np.uint64, "r", shape=(count,))
    mapped: Words = values.view(np.ndarray)
    return mapped


_NONE = LocationRun(KeyIds(_EMPTY, _EMPTY), _EMPTY)


class KeyLocations:
    """Maps keys to locations by sorted runs, each at least twice as long as the next.

    Adding costs amortised merges alone; memory is bounded whatever the number of keys.

    Args:
        directory: on the local disk.
        forgets: of locations, which mean no more than `DELETED`. By default none do.
    """

    def __init__(self, directory: str, forgets: Callable[[Words], Bools] | None = None) -> None:
        self._directory = directory
        self._forgets = forgets
        self._runs: list[LocationRun] = []

    @property
    def count(self) -> int:
        """Keys, those that are there in several runs once for each."""
        return sum(run.count for run in self._runs)

    def find(self, wanted: KeyIds) -> Words:
        """Find the newest location of each key: uint64; perhaps `DELETED`, `NOWHERE` without one.

        Args:
            wanted: in order.
        """
        found = np.full(wanted.count, NOWHERE)
        for run in reversed(self._runs):
            absent = np.flatnonzero(found == NOWHERE)
            if not len(absent):
                break
            found[absent] = run.find(wanted.at(absent))
        return found

    def put(self, keys: KeyIds, locations: Words) -> None:
        """Set the locations (uint64) of keys, which are distinct and in order.

        Raises:
            StorageError: the local disk is full or fails; the map is as it was.
        """
        if not keys.count:
            return
        runs = list(self._runs)
        run = save([LocationRun(keys, locations)], self._directory, keys.count)
        while runs and runs[-1].count < 2 * run.count:
            run = self._merge(runs.pop(), run, at_bottom=not runs)
        self._runs = [*runs, run]

    def chunks(self) -> Iterator[LocationRun]:
        """Yield all keys with their newest locations, in order, piece by piece."""
        if len(self._runs) > 1:
            runs = list(self._runs)
            run = runs.pop()
            while runs:
                run = self._merge(runs.pop(), run, at_bottom=False)
            self._runs = [run]
        for run in self._runs:
            yield from run.chunks()

    def _merge(self, older: LocationRun, newer: LocationRun, at_bottom: bool) -> LocationRun:
        pieces = merged(older, newer)
        if at_bottom and self._forgets is not None:
            pieces = self._kept(pieces)
        return save(pieces, self._directory, older.count + newer.count)

    def _kept(self, pieces: Iterator[LocationRun]) -> Iterator[LocationRun]:
        assert self._forgets is not None
        for piece in pieces:
            kept = ~((piece.locations == DELETED) | self._forgets(piece.locations))
            yield LocationRun(piece.keys.at(kept), piece.locations[kept])
