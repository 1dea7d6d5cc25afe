"""Reads which data files a snapshot holds: its manifests, merged."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from pkray.errors import CorruptFileError, MissingFileError, SnapshotNotFoundError
from pkray.format import binary_row, paths
from pkray.format.data_file import DELETE, DataFileMeta, ManifestEntry
from pkray.format.key_range import rank_columns
from pkray.format.manifest import ManifestFileMeta
from pkray.format.snapshot import Snapshot
from pkray.metadata import manifest_cache
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore, together

F = TypeVar("F")

BucketId = tuple[bytes, int]
"""(partition, bucket)."""
FileKey = tuple[int, str]
"""(level, file name): a file in its bucket."""
FileId = tuple[bytes, int, int, str]
"""(partition, bucket, level, file name): what an entry adds or deletes."""

REMOTE_READS = 8
"""Manifests read at once from an object store."""


def file_id(entry: ManifestEntry) -> FileId:
    return entry.partition, entry.bucket, entry.file.level, entry.file.file_name


def live_files(
    store: ObjectStore,
    snapshot: Snapshot,
    schema: TableSchema | None = None,
    *,
    partitions: Collection[bytes] | None = None,
) -> list[ManifestEntry]:
    """Return the files of a snapshot, in the order in which they were added.

    Args:
        schema: lets manifests be passed over by their partitions' statistics.
        partitions: these only.

    Raises:
        SnapshotNotFoundError: the snapshot has expired.
        MissingFileError: a manifest is gone, though the snapshot is there.
        CorruptFileError: a manifest is damaged.
    """
    with unless_expired(store, snapshot.id):
        manifests = data_manifests(store, snapshot)
        if partitions is not None and schema is not None:
            manifests = _holding_partitions(manifests, partitions, schema)
        entries: Iterable[ManifestEntry] = read_entries(store, manifests)
        if partitions is not None:
            entries = (entry for entry in entries if entry.partition in partitions)
        files, unmatched = merge_entries(entries)
    if unmatched:
        lost = unmatched[0].file.file_name
        raise CorruptFileError(
            f"snapshot {snapshot.id} of {store.url!r} deletes the file {lost!r} that it does not "
            "hold: its manifests are damaged; roll back to an earlier snapshot",
            snapshot_id=snapshot.id,
            path=lost,
        )
    return files


def apply_changes(
    buckets: dict[BucketId, dict[FileKey, F]],
    entries: Iterable[ManifestEntry],
    keep: Callable[[ManifestEntry], F],
) -> None:
    """Move the live files of buckets on by what a snapshot changed.

    Args:
        keep: what is held of a file, by the entry that adds it.
    """
    for entry in entries:
        files = buckets.setdefault((entry.partition, entry.bucket), {})
        key = (entry.file.level, entry.file.file_name)
        if entry.kind == DELETE:
            files.pop(key, None)
        else:
            files[key] = keep(entry)


def by_bucket(entries: Iterable[ManifestEntry]) -> dict[BucketId, tuple[DataFileMeta, ...]]:
    """Group files by (partition, bucket), in the order of the entries."""
    found: dict[BucketId, list[DataFileMeta]] = defaultdict(list)
    for entry in entries:
        found[entry.partition, entry.bucket].append(entry.file)
    return {bucket: tuple(files) for bucket, files in found.items()}


def delta_entries(store: ObjectStore, snapshot: Snapshot) -> list[ManifestEntry]:
    """Return the files that a snapshot added and deleted. Raises as `live_files`."""
    with unless_expired(store, snapshot.id):
        return list(read_entries(store, delta_manifests(store, snapshot)))


def changelog_entries(store: ObjectStore, snapshot: Snapshot) -> list[ManifestEntry]:
    """Return the changelog files of a snapshot.

    Raises:
        SnapshotNotFoundError: the snapshot has expired meanwhile; or it had, but came back by a
            tag, which keeps no changelog.
        MissingFileError: they are gone otherwise.
    """
    if snapshot.changelog_manifest_list is None:
        return []
    try:
        with unless_expired(store, snapshot.id):
            manifests = read_list(store, snapshot.changelog_manifest_list)
            return list(read_entries(store, manifests))
    except MissingFileError as error:
        before = snapshot.id - 1
        if any(store.exists(path(before)) for path in (paths.snapshot, paths.long_lived_changelog)):
            raise
        raise SnapshotNotFoundError(
            f"the changes of snapshot {snapshot.id} of {store.url!r} have expired: only its rows "
            "came back, by a tag; read the changes of later ones, or the whole table first",
            snapshot_id=snapshot.id,
            path=error.values.get("path"),
        ) from error


@contextmanager
def unless_expired(store: ObjectStore, snapshot_id: int | None) -> Iterator[None]:
    """Report a missing file as an expired snapshot while that snapshot's files are read.

    Raises:
        SnapshotNotFoundError: a file was missing and the snapshot has expired.
        MissingFileError: a file was missing, though the snapshot is there.
    """
    try:
        yield
    except MissingFileError as error:
        if snapshot_id is None or store.exists(paths.snapshot(snapshot_id)):
            raise
        raise SnapshotNotFoundError(
            f"snapshot {snapshot_id} of {store.url!r} has expired while it was read: read a newer "
            "one, or keep it by a tag or a consumer beforehand",
            snapshot_id=snapshot_id,
            path=error.values.get("path"),
        ) from error


def data_manifests(store: ObjectStore, snapshot: Snapshot) -> list[ManifestFileMeta]:
    """List the manifests of all of a snapshot's data files, oldest first."""
    base, delta = together(
        store,
        lambda: read_list(store, snapshot.base_manifest_list),
        lambda: delta_manifests(store, snapshot),
    )
    return [*base, *delta]


def delta_manifests(store: ObjectStore, snapshot: Snapshot) -> list[ManifestFileMeta]:
    """List the manifests of what a snapshot changed."""
    return read_list(store, snapshot.delta_manifest_list)


def read_list(store: ObjectStore, name: str) -> list[ManifestFileMeta]:
    """Return the manifests that a manifest list names."""
    return list(manifest_cache.manifest_lists.read(store, name))


def merge_entries(
    entries: Iterable[ManifestEntry],
) -> tuple[list[ManifestEntry], list[ManifestEntry]]:
    """Return what is left after deletions, and the deletions of files added before these
    entries."""
    added: dict[FileId, ManifestEntry] = {}
    unmatched: list[ManifestEntry] = []
    for entry in entries:
        if entry.kind != DELETE:
            added[file_id(entry)] = entry
        elif added.pop(file_id(entry), None) is None:
            unmatched.append(entry)
    return list(added.values()), unmatched


def read_entries(
    store: ObjectStore, manifests: Sequence[ManifestFileMeta]
) -> Iterator[ManifestEntry]:
    """Read the entries of manifests, in order."""
    if store.local_path("") is not None or len(manifests) < 2:
        return itertools.chain.from_iterable(_read(store, m) for m in manifests)
    return _read_ahead(store, manifests)


def _read_ahead(
    store: ObjectStore, manifests: Sequence[ManifestFileMeta]
) -> Iterator[ManifestEntry]:
    with ThreadPoolExecutor(REMOTE_READS) as pool:
        for start in range(0, len(manifests), REMOTE_READS):
            some = manifests[start : start + REMOTE_READS]
            for entries in pool.map(lambda m: _read(store, m), some):
                yield from entries


def _read(store: ObjectStore, manifest: ManifestFileMeta) -> list[ManifestEntry]:
    return manifest_cache.manifests.read(store, manifest.file_name, manifest.file_size)


def _holding_partitions(
    manifests: list[ManifestFileMeta], partitions: Collection[bytes], schema: TableSchema
) -> list[ManifestFileMeta]:
    """Select the manifests whose partition statistics allow for one of the partitions."""
    if not partitions or not schema.partition_keys or not manifests:
        return manifests if partitions else []
    stats = [manifest.partition_stats for manifest in manifests]
    rows = [*partitions, *(s.min_values for s in stats), *(s.max_values for s in stats)]
    columns = binary_row.decode(rows, schema.types(schema.partition_keys))
    count, first = len(manifests), len(partitions)
    possible = [[True] * first for _ in manifests]
    for position, column in enumerate(columns):
        ranks = rank_columns([column])
        known = column.is_valid().to_pylist()
        for index in range(count):
            low, high = first + index, first + count + index
            if not (known[low] and known[high]):
                continue
            nulls = stats[index].null_counts[position : position + 1]
            for wanted in range(first):
                inside = (
                    ranks[low] <= ranks[wanted] <= ranks[high] if known[wanted] else nulls != (0,)
                )
                possible[index][wanted] &= bool(inside)
    return [m for m, wanted in zip(manifests, possible, strict=True) if any(wanted)]
