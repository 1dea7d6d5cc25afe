"""Where keys are by what sessions were told and have not committed."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from pkray.service.assignment.key_locations import KeyLocations
from pkray.service.assignment.location_runs import NOWHERE
from pkray.service.assignment.open_sessions import OpenSessions
from pkray.service.client.key_ids import KeyIds, Words
from pkray.service.protocol import RowsPlaced


@dataclass
class SessionLocations:
    """The locations that one session was told.

    Args:
        locations: of all keys that it asked for, as they will be.
        additions: `GlobalKeyIndex.additions` when it began.
        token: told with each answer; another one means that the session was forgotten.
        sizes: keys that were given new locations, by partition and bucket.
        used: the numbers of the partitions that its keys are or were in.
        answer: the last one, to be repeated where it was lost.
        is_overtaken: another session was committed that changed locations of its keys.
    """

    locations: KeyLocations
    additions: int
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    sizes: defaultdict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    used: set[int] = field(default_factory=set)
    answers: int = 0
    answer: RowsPlaced | None = None
    is_overtaken: bool = False


class PendingLocations(OpenSessions[SessionLocations]):
    """The locations that sessions were told that have not ended."""

    def __len__(self) -> int:
        """Keys that are not committed."""
        return sum(each.locations.count for each in self)

    def latest(self, keys: KeyIds, committed: Words) -> Words:
        """Find locations (uint64) with what is not committed; where two sessions disagree, of
        either.

        Args:
            keys: in order.
            committed: their locations in the table.
        """
        found = committed.copy()
        for each in self:
            told = each.locations.find(keys)
            changed = (told != NOWHERE) & (told != committed)
            found[changed] = told[changed]
        return found

    def sizes(self, partition: int) -> Counter[int]:
        """Count the keys that were given new locations in a partition, by bucket."""
        sizes: Counter[int] = Counter()
        for each in self:
            sizes.update(each.sizes.get(partition, {}))
        return sizes

    def overtake(self, keys: KeyIds) -> None:
        """Note that other locations of these keys were committed."""
        for each in self:
            each.is_overtaken |= bool((each.locations.find(keys) != NOWHERE).any())
