"""Deletes the files of snapshots that were removed from the newest end of a history."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence

from pkray.errors import StorageError
from pkray.expiration import references
from pkray.format.data_file import ADD, ManifestEntry
from pkray.format.partition import PartitionSpec
from pkray.format.snapshot import Snapshot
from pkray.metadata import manifest_cache
from pkray.metadata.live import live_files
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore


def delete_unreferenced(
    main: ObjectStore,
    schema: TableSchema,
    removed: Sequence[Snapshot],
    whole: Sequence[Snapshot] = (),
) -> int:
    """Delete the files that removed snapshots named and neither the table nor a branch does.

    Args:
        main: the table's root.
        removed: snapshots and changelogs of which the files that they added are deleted.
        whole: snapshots, such as those of tags, of which all files are deleted.

    Returns:
        The number of files deleted.

    Raises:
        StorageError: what is still named could not be read; nothing was deleted.
    """
    if not removed and not whole:
        return 0
    data: set[str] = set()
    metadata: set[str] = set()
    for snapshot in (*removed, *whole):
        for name in (snapshot.delta_manifest_list, snapshot.changelog_manifest_list):
            data.update(_added(schema, references.entries_if_there(main, name)))
            metadata |= references.list_files(main, name)
        metadata |= references.data_metadata(main, snapshot)
    for snapshot in whole:
        with contextlib.suppress(StorageError):  # cleaned before
            data.update(_added(schema, live_files(main, snapshot)))
    kept = references.References()
    deltas = schema.core.changelog_producer == "none"
    for root in (main, *references.branch_roots(main)):
        references.collect(main, root, kept, deltas=deltas)
    unreferenced = [path for path in data if path.rsplit("/", 1)[-1] not in kept.data]
    unnamed = sorted(metadata - kept.metadata)
    main.delete(unreferenced)
    manifest_cache.delete(main, unnamed)
    return len(unreferenced) + len(unnamed)


def _added(schema: TableSchema, entries: Iterable[ManifestEntry]) -> Iterator[str]:
    partitions = PartitionSpec(schema)
    for entry in entries:
        if entry.kind == ADD:
            yield from partitions.files(entry.partition, entry.bucket, entry.file)
