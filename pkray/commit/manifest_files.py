"""Writes the manifests and manifest lists of one commit."""

import contextlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from pkray.errors import StorageError
from pkray.format import binary_row, manifest, paths
from pkray.format.data_file import ADD, ManifestEntry, SimpleStats
from pkray.format.stats import EMPTY_STATS, StatsCollector
from pkray.metadata import manifest_cache
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore, each

ENTRY_BYTES = 100
"""Least bytes of an entry in a manifest, taken until one was written."""


class WrittenList(NamedTuple):
    """A manifest list: its name and its size in bytes."""

    name: str
    size: int


class ManifestFiles:
    """Writes files under names of its own, and remembers them.

    Args:
        schema: its ``manifest.target-file-size`` and ``manifest.compression`` count.
        names: gives new names.
    """

    def __init__(self, store: ObjectStore, schema: TableSchema, names: paths.FileNames) -> None:
        self._store = store
        self._schema = schema
        self._names = names
        self._target_size = schema.core.manifest_target_file_size
        self._compression = schema.core.manifest_compression
        self.written: list[str] = []
        self._unsent: list[tuple[str, bytes]] = []

    def write_manifests(
        self, entries: Sequence[ManifestEntry], entry_bytes: int = ENTRY_BYTES
    ) -> list[manifest.ManifestFileMeta]:
        """Write manifests of these entries, in order; none if there are none.

        Args:
            entry_bytes: expected size of an entry, to cut manifests by.
        """
        rows = max(1, self._target_size // max(1, entry_bytes))
        return [
            self._write_manifest(entries[start : start + rows])
            for start in range(0, len(entries), rows)
        ]

    def write_list(self, manifests: Iterable[manifest.ManifestFileMeta]) -> WrittenList:
        """Write a manifest list of these manifests."""
        name = self._names.manifest_list()
        items = list(manifests)
        data = manifest.write_manifest_list(items, self._compression)
        self._write(name, data)
        manifest_cache.manifest_lists.written(self._store, name, items)
        return WrittenList(name, len(data))

    def write_index(self, entries: Sequence[manifest.IndexManifestEntry]) -> str:
        """Write an index manifest; return its name."""
        name = self._names.index_manifest()
        self._write(name, manifest.write_index_manifest(entries, self._compression))
        manifest_cache.index_manifests.written(self._store, name, list(entries))
        return name

    def discard(self) -> None:
        """Delete what was written: for files that no snapshot can name."""
        with contextlib.suppress(StorageError):  # what stays is the orphan cleaner's
            manifest_cache.delete(self._store, [paths.manifest(name) for name in self.written])
        self.written = []
        self._unsent = []

    @property
    def unsent(self) -> list[tuple[str, bytes]]:
        """Names and content of what is to be written still, to an object store: see `send`."""
        return self._unsent

    def _write(self, name: str, data: bytes) -> None:
        self.written.append(name)
        if self._store.local_path("") is not None:
            self._store.write(paths.manifest(name), data)
        else:
            self._unsent.append((name, data))

    def _write_manifest(self, entries: Sequence[ManifestEntry]) -> manifest.ManifestFileMeta:
        name = self._names.manifest()
        data = manifest.write_manifest(entries, self._compression)
        self._write(name, data)
        manifest_cache.manifests.written(self._store, name, list(entries))
        added = sum(entry.kind == ADD for entry in entries)
        buckets = [entry.bucket for entry in entries]
        levels = [entry.file.level for entry in entries]
        return manifest.ManifestFileMeta(
            file_name=name,
            file_size=len(data),
            num_added_files=added,
            num_deleted_files=len(entries) - added,
            partition_stats=partition_stats([e.partition for e in entries], self._schema),
            schema_id=self._schema.id,
            min_bucket=min(buckets),
            max_bucket=max(buckets),
            min_level=min(levels),
            max_level=max(levels),
        )


def send(store: ObjectStore, files: Sequence[ManifestFiles]) -> None:
    """Write what is unsent, side by side: none of it names another by more than its size.

    Raises:
        StorageError: some are not written.
    """

    def write(unsent: tuple[str, bytes]) -> None:
        name, data = unsent
        store.write(paths.manifest(name), data)

    each(store, write, [one for some in files for one in some.unsent])
    for some in files:
        some.unsent.clear()


def partition_stats(partitions: Sequence[bytes], schema: TableSchema) -> SimpleStats:
    """Compute statistics of the partition columns over entries."""
    names = list(schema.partition_keys)
    if not names:
        return EMPTY_STATS
    types = schema.types(names)
    collector = StatsCollector(names, types, mode="full")
    collector.update(pa.table(binary_row.decode(partitions, types), names=names))
    return collector.finish()
