"""Count what owners and coordinators do, for people and metrics."""

from dataclasses import dataclass

from pkray.lookup.local_file_cache import LookupStats


@dataclass(frozen=True)
class CompactionCounts:
    """Compactions of an owner.

    Args:
        started, committed, dropped, failed: since the owner started.
        running, finished: now; what has finished waits for a commit.
    """

    started: int
    committed: int
    dropped: int
    failed: int
    running: int
    finished: int


@dataclass(frozen=True)
class CompactionStats(CompactionCounts):
    """Compactions of an owner, and commits that had to wait for them.

    Args:
        writers_waiting: buckets that commits wait for now.
        writer_waits: waits that have ended.
        writer_wait_seconds: that these took.
    """

    writers_waiting: int
    writer_waits: int
    writer_wait_seconds: float


@dataclass(frozen=True)
class HashIndexStats:
    """Key hashes that an owner holds to assign dynamic buckets.

    Args:
        partitions, hashes, bytes: of the committed index in memory.
        uncommitted: sessions that have assigned buckets.
    """

    partitions: int
    hashes: int
    bytes: int
    uncommitted: int


@dataclass(frozen=True)
class KeyIndexStats:
    """Keys that an owner holds where keys cross partitions.

    Args:
        keys: of the committed index.
        uncommitted: sessions that have placed rows.
    """

    keys: int
    uncommitted: int


@dataclass(frozen=True)
class OwnerStats:
    """One owner.

    Args:
        owner: its index.
        snapshot_id: the newest that it knows.
        memory_bytes: of rows that are not committed.
        assigned: None where it assigns no dynamic buckets.
    """

    owner: int
    pid: int
    snapshot_id: int
    buckets: int
    sessions: int
    memory_bytes: int
    lookup: LookupStats
    assigned: HashIndexStats | KeyIndexStats | None
    compaction: CompactionStats

    def as_dict(self) -> dict[str, object]:
        """Make a dict as `Table.service_stats` shows it."""
        assigned = {} if self.assigned is None else vars(self.assigned)
        return {**vars(self), "assigned": dict(assigned), "compaction": dict(vars(self.compaction))}


@dataclass(frozen=True)
class CoordinatorStats:
    """The coordinator of a table.

    Args:
        users: commit users that it has seen.
        prepared_again: rounds of commits that others' commits made necessary.
    """

    pid: int
    owners: int
    users: int
    prepared_again: int

    def as_dict(self) -> dict[str, object]:
        """Make a dict as `Table.service_stats` shows it."""
        return dict(vars(self))
