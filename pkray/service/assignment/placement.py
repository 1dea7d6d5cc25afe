"""Place rows of keys that cross partitions: a pure function of where their keys are.

Source: "Cross Partitions Upsert Dynamic Bucket Mode" in Apache Paimon.
"""

from enum import Enum
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from pkray.schema.table_schema import TableSchema
from pkray.service.assignment.location_runs import DELETED, NOWHERE
from pkray.service.client.key_ids import Bools, Ints, Words

_BUCKET_BITS = np.uint64(16)
_BUCKET = np.uint64((1 << 16) - 1)


class Rule(Enum):
    """The rule for a row whose key is in another partition."""

    MOVES = "the old row is deleted there, and the new one goes to its own partition"
    STAYS = "it goes to the old row's partition"
    IGNORED = "it is dropped"

    @classmethod
    def from_schema(cls, schema: TableSchema) -> Self:
        """Take the rule of the table's merge engine."""
        return {"deduplicate": cls.MOVES, "first-row": cls.IGNORED}.get(
            schema.core.merge_engine, cls.STAYS
        )


def locations_of(numbers: npt.NDArray[np.uint64], buckets: npt.NDArray[np.int32]) -> Words:
    """Pack locations: a partition's number and a bucket in one int64."""
    return (numbers << _BUCKET_BITS) | buckets.astype(np.uint64)


def numbers_of(locations: Words) -> Words:
    """Unpack the partitions' numbers of locations: uint64."""
    return locations >> _BUCKET_BITS


def bucket_of(locations: Words) -> npt.NDArray[np.int32]:
    """Unpack the buckets of locations: int32."""
    return (locations & _BUCKET).astype(np.int32)


def is_there(locations: Words) -> Bools:
    """Whether a row is at the location: neither `NOWHERE` nor `DELETED`."""
    return locations < DELETED


class Placed(NamedTuple):
    """Rows' locations.

    Args:
        locations: of each row, `NOWHERE` where it is dropped.
        left: of each row the location at which its key is to be deleted before, or `NOWHERE`.
        after: of each key the location at last, or `DELETED`.
    """

    locations: Words
    left: Words
    after: Words


class Placement:
    """Decides for rows that are ordered by key, those of one key as they came.

    Args:
        firsts: the first row of each key.
        before: each key's location up to now.
        wanted: the number of each row's own partition.
        removes: of each row, whether it leaves no row of its key.
    """

    def __init__(
        self, rule: Rule, firsts: Bools, before: Words, wanted: Words, removes: Bools
    ) -> None:
        self._rule = rule
        self._firsts = np.flatnonzero(firsts)
        self._before = before
        self._wanted = wanted
        self._removes = removes
        absent = np.empty(len(wanted), np.bool_)
        absent[1:] = removes[:-1]
        absent[self._firsts] = ~is_there(before)
        self._is_absent = absent
        self._changes = ~absent & (self._numbers_before() != wanted)
        self._moves = self._changes & ~removes & (rule is Rule.MOVES)
        self.fresh: Ints = np.flatnonzero((absent | self._moves) & ~removes)
        """Rows that need a new location in their own partitions."""

    def place(self, fresh: Words) -> Placed:
        """Choose the rows' locations.

        Args:
            fresh: the new locations.
        """
        count = len(self._wanted)
        known = np.full(count, NOWHERE)
        known[self._firsts] = self._before
        known[self.fresh] = fresh
        anchors = np.zeros(count, np.int64)
        anchors[self._firsts] = self._firsts
        anchors[self.fresh] = self.fresh
        held = known[np.maximum.accumulate(anchors)]
        left = np.full(count, NOWHERE)
        moves = np.flatnonzero(self._moves)
        left[moves] = held[moves - 1]
        at_first = self._moves[self._firsts]
        left[self._firsts[at_first]] = self._before[at_first]
        locations = held.copy()
        locations[self._is_absent & self._removes] = NOWHERE
        if self._rule is Rule.IGNORED:
            locations[self._changes] = NOWHERE
        lasts = np.append(self._firsts, count)[1:] - 1
        after = np.where(self._removes[lasts], DELETED, held[lasts])
        return Placed(locations, left, after)

    def _numbers_before(self) -> Words:
        """Find the number of the partition that each row's key was in just before."""
        numbers = np.empty(len(self._wanted), np.uint64)
        if self._rule is Rule.MOVES:
            numbers[1:] = self._wanted[:-1]
            numbers[self._firsts] = numbers_of(self._before)
            return numbers
        # Until it is removed, a key stays where its first row has put it.
        starts = np.zeros(len(numbers), np.int64)
        starts[self._firsts] = self._firsts
        again = np.flatnonzero(self._is_absent)
        starts[again] = again
        targets = self._wanted.copy()
        there = is_there(self._before)
        targets[self._firsts[there]] = numbers_of(self._before[there])
        return targets[np.maximum.accumulate(starts)]
