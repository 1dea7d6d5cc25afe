"""Set up one owner."""

from dataclasses import dataclass

LEASE_MILLIS = 30_000
"""Long enough for a heartbeat that comes late, short enough to wait for where a writer is gone."""


@dataclass(frozen=True)
class OwnerSettings:
    """An owner's place among the others, and what it may use.

    Args:
        index: 0 … owners-1.
        owners: how many share the table's buckets.
        local_directory: a folder of this owner alone, for spooled rows and the lookup cache.
        staging_memory: bytes of staged rows kept in memory. Default 128 MB.
        refresh_millis: look for other processes' snapshots at most this often before a
            committed lookup. Default 0: every time.
        compaction_threads: compactions at a time, concurrently with writing. Default 1.
        lease_millis: a session that nobody renews for so long is dropped, as its writer is gone;
            one that is not gone pushes again. Default 30 seconds.
    """

    index: int
    owners: int
    local_directory: str
    staging_memory: int = 128 << 20
    refresh_millis: int = 0
    lease_millis: int = LEASE_MILLIS
    compaction_threads: int = 1
