"""Finds conflicts between what a commit changes and the files that are there."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pkray.format.commit_message import files_digest
from pkray.format.data_file import DELETE, ManifestEntry
from pkray.format.key_range import rank_ranges
from pkray.metadata.live import BucketId, FileKey
from pkray.schema.types import DataType


class LiveFile(NamedTuple):
    """A file that is there, as far as conflicts depend on it."""

    min_key: bytes
    max_key: bytes
    total_buckets: int


LiveFiles = Mapping[BucketId, Mapping[FileKey, LiveFile]]


def find_conflict(
    entries: Sequence[ManifestEntry], live: LiveFiles, key_types: Sequence[DataType]
) -> str | None:
    """Say why the entries cannot be applied to the live files; None if they can.

    Every file deleted must be there, every file added must not. Above level 0 the files of a
    bucket's level must not overlap in keys. A partition has one number of buckets.

    Args:
        live: at least the buckets of the entries' partitions.
        key_types: of the trimmed primary key.
    """
    by_bucket: dict[BucketId, list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        by_bucket[entry.partition, entry.bucket].append(entry)
    totals = _total_buckets(live, {partition for partition, _ in by_bucket}, entries)
    for bucket, changes in by_bucket.items():
        found = (
            _bucket_count_conflict(bucket, changes, totals)
            or _bucket_conflict(bucket, changes, live.get(bucket, {}), key_types)
        )  # fmt: skip
        if found:
            return found
    return None


def needs_check(entries: Iterable[ManifestEntry]) -> bool:
    """Whether entries could conflict: new files at level 0 never do."""
    return any(entry.kind == DELETE or entry.file.level > 0 for entry in entries)


def _total_buckets(
    live: LiveFiles, partitions: set[bytes], entries: Sequence[ManifestEntry]
) -> dict[bytes, int]:
    """Count the buckets of each partition with files that stay: an emptied one may get another
    number."""
    deleted = {
        (e.partition, e.bucket, e.file.level, e.file.file_name) for e in entries if e.kind == DELETE
    }
    totals: dict[bytes, int] = {}
    for (partition, bucket), files in live.items():
        if partition in partitions and partition not in totals:
            for (level, name), file in files.items():
                if (partition, bucket, level, name) not in deleted:
                    totals[partition] = file.total_buckets
                    break
    return totals


def _bucket_count_conflict(
    bucket: BucketId, changes: list[ManifestEntry], totals: dict[bytes, int]
) -> str | None:
    for entry in changes:
        if entry.kind == DELETE:
            continue
        total = totals.setdefault(entry.partition, entry.total_buckets)
        if entry.total_buckets != total:
            return (
                f"{_name(bucket)} was written for {entry.total_buckets} buckets, but the "
                f"partition has {total}"
            )
    return None


def _bucket_conflict(
    bucket: BucketId,
    changes: list[ManifestEntry],
    live: Mapping[FileKey, LiveFile],
    key_types: Sequence[DataType],
) -> str | None:
    after = dict(live)
    added: set[FileKey] = set()
    for entry in changes:
        key = (entry.file.level, entry.file.file_name)
        if entry.kind == DELETE:
            if after.pop(key, None) is None:
                return (
                    f"{_name(bucket)}: file {entry.file.file_name} of level {entry.file.level} "
                    "is no longer there"
                )
            added.discard(key)
        elif key in after:
            return f"{_name(bucket)}: file {entry.file.file_name} is there already"
        else:
            after[key] = LiveFile(entry.file.min_key, entry.file.max_key, entry.total_buckets)
            added.add(key)
    for level in sorted({level for level, _ in added if level > 0}):
        overlap = _overlap(after, added, level, key_types)
        if overlap:
            return f"{_name(bucket)}: files {overlap[0]} and {overlap[1]} of level {level} overlap"
    return None


def find_changed_bucket(upper_files: Mapping[BucketId, bytes], live: LiveFiles) -> str | None:
    """Name a bucket whose files above level 0 are others than a compaction read; None if none
    is."""
    for bucket, digest in upper_files.items():
        files = live.get(bucket, {})
        if files_digest(key for key in files if key[0] > 0) != digest:
            return f"{_name(bucket)}: its files above level 0 have changed since it was compacted"
    return None


def _overlap(
    files: Mapping[FileKey, LiveFile],
    added: set[FileKey],
    level: int,
    key_types: Sequence[DataType],
) -> tuple[str, str] | None:
    keys = [key for key in files if key[0] == level]
    if len(keys) < 2:
        return None
    low, high = rank_ranges(
        [files[key].min_key for key in keys], [files[key].max_key for key in keys], key_types
    )
    order = np.lexsort((high, low))
    for left, right in itertools.pairwise(order):
        pair = keys[left], keys[right]
        if high[left] >= low[right] and (pair[0] in added or pair[1] in added):
            return pair[0][1], pair[1][1]
    return None


def _name(bucket: BucketId) -> str:
    partition, number = bucket
    return f"bucket {number}" + (f" of partition {partition.hex()}" if any(partition) else "")
