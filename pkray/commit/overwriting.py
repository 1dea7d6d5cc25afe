"""Makes the entries of an overwrite: all files of some partitions are deleted."""

from collections.abc import Collection, Sequence
from typing import Protocol

from pkray.commit.committable import message_entries
from pkray.commit.conflicts import LiveFiles
from pkray.commit.index_files import IndexChange, index_entries
from pkray.format.commit_message import CommitMessage
from pkray.format.data_file import ADD, DELETE, ManifestEntry
from pkray.format.snapshot import Snapshot
from pkray.metadata.live import live_files
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore


class Partitions(Protocol):
    """Selects the partitions that an overwrite replaces."""

    def select(self, partitions: Collection[bytes]) -> Collection[bytes]: ...


def overwrite_entries(
    store: ObjectStore,
    schema: TableSchema,
    latest: Snapshot | None,
    live: LiveFiles,
    replaced: Partitions,
    messages: Sequence[CommitMessage],
) -> tuple[list[ManifestEntry], list[IndexChange]]:
    """Make the entries and index changes that put new files in the place of a snapshot's.

    Args:
        live: the snapshot's files by bucket.
        replaced: the partitions of which no earlier file stays.
    """
    replaced_partitions = frozenset(
        replaced.select({partition for (partition, _), files in live.items() if files})
    )
    entries: list[ManifestEntry] = []
    if latest is not None and replaced_partitions:
        there = live_files(store, latest, schema, partitions=replaced_partitions)
        entries = [
            ManifestEntry(DELETE, e.partition, e.bucket, e.total_buckets, e.file) for e in there
        ]
    entries += [e for m in messages for e in message_entries(ADD, m, m.new_files)]
    return entries, _index_changes(store, latest, replaced_partitions, messages)


def _index_changes(
    store: ObjectStore,
    latest: Snapshot | None,
    replaced_partitions: frozenset[bytes],
    messages: Sequence[CommitMessage],
) -> list[IndexChange]:
    names: dict[tuple[bytes, int, str], set[str]] = {}
    for entry in index_entries(store, latest):
        if entry.partition in replaced_partitions:
            key = (entry.partition, entry.bucket, entry.file.index_type)
            names.setdefault(key, set()).add(entry.file.file_name)
    changes = {
        key: IndexChange(*key, files=(), base=frozenset(base)) for key, base in names.items()
    }
    for message in messages:
        for index_type in message.index_types:
            key = (message.partition, message.bucket, index_type)
            files = tuple(f for f in message.index_files if f.index_type == index_type)
            changes[key] = IndexChange(*key, files=files, base=frozenset(names.get(key, ())))
    return list(changes.values())
