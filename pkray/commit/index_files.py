"""The index files of a snapshot, and how a commit changes them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pkray.format.commit_message import CommitMessage
from pkray.format.data_file import ADD
from pkray.format.index_file import DELETION_VECTORS, HASH, IndexFileMeta
from pkray.format.manifest import IndexManifestEntry
from pkray.format.snapshot import APPEND, Snapshot
from pkray.metadata import manifest_cache
from pkray.metadata.live import BucketId
from pkray.storage.object_store import ObjectStore


@dataclass(frozen=True)
class IndexChange:
    """A bucket's index files of one type from now on.

    Args:
        base: names of those the change starts from.
    """

    partition: bytes
    bucket: int
    index_type: str
    files: tuple[IndexFileMeta, ...]
    base: frozenset[str]


def index_entries(store: ObjectStore, snapshot: Snapshot | None) -> list[IndexManifestEntry]:
    """Return the index files that a snapshot has.

    Raises:
        MissingFileError: the index manifest is gone: the snapshot has expired.
        CorruptFileError: it is damaged.
    """
    if snapshot is None or snapshot.index_manifest is None:
        return []
    entries = manifest_cache.index_manifests.read(store, snapshot.index_manifest)
    return [entry for entry in entries if entry.kind == ADD]


def index_files(
    store: ObjectStore, snapshot: Snapshot | None, index_type: str | None = None
) -> dict[BucketId, list[IndexFileMeta]]:
    """Return a snapshot's index files by bucket, of every type by default."""
    found: dict[BucketId, list[IndexFileMeta]] = defaultdict(list)
    for entry in index_entries(store, snapshot):
        if index_type is None or entry.file.index_type == index_type:
            found[entry.partition, entry.bucket].append(entry.file)
    return dict(found)


def index_changes(messages: Iterable[CommitMessage], commit_kind: str) -> list[IndexChange]:
    """Collect what messages change with a snapshot of this kind.

    Deletion vectors go with COMPACT, as they mark what compaction found; others with APPEND.
    """
    return [
        IndexChange(
            message.partition,
            message.bucket,
            index_type,
            tuple(file for file in message.index_files if file.index_type == index_type),
            frozenset(message.index_base),
        )
        for message in messages
        for index_type in sorted(message.index_types)
        if (index_type == DELETION_VECTORS) == (commit_kind != APPEND)
    ]


def apply_changes(
    entries: Sequence[IndexManifestEntry], changes: Sequence[IndexChange]
) -> list[IndexManifestEntry]:
    """Return the entries after the changes."""
    changed = {(each.partition, each.bucket, each.index_type) for each in changes}
    kept = [
        entry
        for entry in entries
        if (entry.partition, entry.bucket, entry.file.index_type) not in changed
    ]
    return kept + [
        IndexManifestEntry(kind=ADD, partition=each.partition, bucket=each.bucket, file=file)
        for each in changes
        for file in each.files
    ]


def find_assignment_conflict(
    before: Sequence[IndexManifestEntry],
    now: Sequence[IndexManifestEntry],
    partitions: Collection[bytes],
) -> str | None:
    """Say why keys that hash indexes gave buckets may not be in these now; None if they may.

    Args:
        before, now: the index files of two snapshots.
        partitions: those with such keys.
    """
    known, found = (
        {
            (entry.partition, entry.bucket, entry.file.file_name)
            for entry in entries
            if entry.file.index_type == HASH and entry.partition in partitions
        }
        for entries in (before, now)
    )
    for partition, bucket, _ in sorted(known ^ found):
        place = f" of partition {partition.hex()}" if any(partition) else ""
        return f"the {HASH} index of bucket {bucket}{place} was changed by another commit"
    return None


def find_index_conflict(
    entries: Sequence[IndexManifestEntry], changes: Sequence[IndexChange]
) -> str | None:
    """Say why the changes do not fit a snapshot's index files; None if they do."""
    there: dict[tuple[bytes, int, str], set[str]] = defaultdict(set)
    for entry in entries:
        key = entry.partition, entry.bucket, entry.file.index_type
        there[key].add(entry.file.file_name)
    for change in changes:
        names = there[change.partition, change.bucket, change.index_type]
        foreign = names - change.base
        if foreign:
            return (
                f"the {change.index_type} index of bucket {change.bucket} is now "
                f"{', '.join(sorted(foreign))}, written by another commit"
            )
    return None
