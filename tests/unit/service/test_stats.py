"""What is counted, as users see it."""

import pytest

from pkray.lookup.local_file_cache import LookupStats
from pkray.service.stats import (
    CompactionStats,
    CoordinatorStats,
    HashIndexStats,
    KeyIndexStats,
    OwnerStats,
)

COMPACTION = {
    "started": 1,
    "committed": 2,
    "dropped": 3,
    "failed": 4,
    "running": 5,
    "finished": 6,
    "writers_waiting": 7,
    "writer_waits": 8,
    "writer_wait_seconds": 9.5,
}


@pytest.mark.parametrize(
    ("assigned", "shown"),
    [
        (None, {}),
        (HashIndexStats(1, 2, 3, 4), {"partitions": 1, "hashes": 2, "bytes": 3, "uncommitted": 4}),
        (KeyIndexStats(5, 6), {"keys": 5, "uncommitted": 6}),
    ],
)
def test_an_owner_is_shown_as_a_dict_of_dicts(assigned, shown):
    lookup = LookupStats(hits=1)
    owner = OwnerStats(0, 99, 7, 2, 3, 1000, lookup, assigned, CompactionStats(**COMPACTION))
    assert owner.as_dict() == {
        "owner": 0,
        "pid": 99,
        "snapshot_id": 7,
        "buckets": 2,
        "sessions": 3,
        "memory_bytes": 1000,
        "lookup": lookup,
        "assigned": shown,
        "compaction": COMPACTION,
    }


def test_a_coordinator_is_shown_as_a_dict():
    shown = {"pid": 1, "owners": 2, "users": 3, "prepared_again": 4}
    assert CoordinatorStats(1, 2, 3, 4).as_dict() == shown
