"""Maps each key to its location, in a map that grows on the local disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from pkray.service.assignment.location_runs import DELETED, NOWHERE, LocationRun, merged, save
from pkray.service.client.key_ids import Bools, KeyIds, Words


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
