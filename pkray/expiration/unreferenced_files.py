"""Finds and deletes the files of expired snapshots that nothing kept names."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from pkray.errors import MissingFileError
from pkray.expiration import references
from pkray.expiration.expiry_journal import Expiring
from pkray.expiration.expiry_report import ExpiryReport
from pkray.format import paths
from pkray.format.data_file import ADD, COMPACT_SOURCE, ManifestEntry
from pkray.format.manifest import ManifestFileMeta
from pkray.format.partition import PartitionSpec
from pkray.format.snapshot import Snapshot
from pkray.metadata import manifest_cache
from pkray.metadata.changelogs import ChangelogStore
from pkray.metadata.commit_history import CLOCKS_APART_MILLIS
from pkray.metadata.tags import TagStore
from pkray.schema.table_schema import TableSchema
from pkray.storage.empty_folders import remove_empty_parents
from pkray.storage.object_store import ObjectStore, each

_READ_AHEAD = 256
"""Snapshots of which all is read before any of it is looked at: of more it might not stay in
memory until then."""
_CACHED_TAGS = 2
"""Tags whose names are kept: the newest before a snapshot is asked, and seldom an older one."""


class Unreferenced(NamedTuple):
    """Files that nothing kept names: paths, and the bytes of the data files."""

    data: list[str]
    data_bytes: int
    lists: list[str]
    metadata: list[str]

    @property
    def report(self) -> ExpiryReport:
        return ExpiryReport(
            data_files=len(self.data),
            data_bytes=self.data_bytes,
            metadata_files=len(self.lists) + len(self.metadata),
        )


class UnreferencedFiles:
    """Deletes the files of expired snapshots and changelogs that nothing kept names.

    The cost grows with what the expired snapshots changed and, where there are tags or branches,
    with the files of these.

    Args:
        store: where manifests and data lie.
        history: the root of the snapshots.
    """

    def __init__(self, store: ObjectStore, history: ObjectStore) -> None:
        self._store = store
        self._history = history
        self._tags = TagStore(history)
        self._changelogs = ChangelogStore(history)
        self._tagged: OrderedDict[str, references.NameSet] = OrderedDict()
        self._tag_metadata: dict[str, set[str]] = {}
        self._delta_lists: dict[int, set[str]] = {}
        self._others: dict[str, tuple[Hashable, references.References]] = {}

    def delete(self, expiring: Expiring, schema: TableSchema) -> ExpiryReport:
        """Delete the files of expired snapshots that nothing kept names; missing ones are passed
        over.

        Data goes before the manifests that lead to it, manifests before the lists that name them:
        whenever this is cut short, doing it again finds what is left.
        """
        found = self.find(expiring, schema)
        self._store.delete(found.data)
        if schema.core.snapshot_clean_empty_directories:
            remove_empty_parents(self._store, {path.rpartition("/")[0] for path in found.data})
        manifest_cache.delete(self._store, found.metadata)
        manifest_cache.delete(self._store, found.lists)
        return found.report

    def find(self, expiring: Expiring, schema: TableSchema) -> Unreferenced:
        """Find the files that `delete` deletes."""
        kept = _Kept(
            sorted(self._tags.all().values(), key=lambda tag: tag.id), self._elsewhere(schema)
        )
        self._read_ahead(expiring)
        data, size = self._data(expiring, kept, schema)
        return Unreferenced(data, size, *self._metadata(expiring, kept, schema))

    def _read_ahead(self, expiring: Expiring) -> None:
        """Read an object store's lists and manifests into memory side by side."""
        snapshots = (*expiring.expired, expiring.kept)
        if self._store.local_path("") is not None or len(snapshots) > _READ_AHEAD:
            return
        store = self._store
        changed = [snapshot.delta_manifest_list for snapshot in snapshots]
        if not expiring.keep_changelogs:
            changed += [name for s in snapshots if (name := s.changelog_manifest_list) is not None]
        lists = each(store, lambda name: references.read_list_if_there(store, name), changed)
        base = [snapshot.base_manifest_list for snapshot in snapshots]
        each(store, lambda name: references.read_list_if_there(store, name), base)

        def read(manifest: ManifestFileMeta) -> None:
            with contextlib.suppress(MissingFileError):
                manifest_cache.manifests.read(store, manifest.file_name, manifest.file_size)

        each(store, read, [manifest for found in lists for manifest in found])

    def _elsewhere(self, schema: TableSchema) -> references.References:
        """Collect what other branches name, and the table itself where this is a branch."""
        found = references.References()
        for root in (self._store, *references.branch_roots(self._store)):
            if root.url == self._history.url:
                continue
            state = _state(root)
            if self._others.get(root.url, (None,))[0] != state:
                named = references.References()
                references.collect(self._store, root, named, deltas=_reads_deltas(schema))
                self._others[root.url] = state, named
            named = self._others[root.url][1]
            found.metadata |= named.metadata
            found.data.update(named.data)
        return found

    def _data(self, expiring: Expiring, kept: _Kept, schema: TableSchema) -> tuple[list[str], int]:
        partitions = PartitionSpec(schema)
        unreferenced: dict[str, ManifestEntry] = {}
        for snapshot in expiring.expired:
            if not expiring.keep_changelogs:
                for entry in references.entries_if_there(
                    self._store, snapshot.changelog_manifest_list
                ):
                    if entry.kind == ADD:
                        unreferenced[_paths(entry, partitions)[0]] = entry
        deleters = expiring.expired  # a file is deleted by the snapshot after the last that has it
        if not expiring.changelogs:
            deleters = (*deleters[1:], expiring.kept)
        spare_new = expiring.keep_changelogs and _reads_deltas(schema)
        for snapshot in deleters:
            removed = self._removed_by(snapshot, partitions)
            if spare_new:  # the changelog is read from these
                removed = {
                    path: entry
                    for path, entry in removed.items()
                    if entry.file.file_source == COMPACT_SOURCE
                }
            unreferenced |= self._untagged(removed, kept.tags_before(snapshot.id))
        found = [
            entry
            for path, entry in unreferenced.items()
            if path.rpartition("/")[2] not in kept.elsewhere.data
        ]
        every = [path for entry in found for path in _paths(entry, partitions)]
        return every, sum(entry.file.file_size for entry in found)

    def _untagged(
        self, removed: dict[str, ManifestEntry], tags: Sequence[Snapshot]
    ) -> dict[str, ManifestEntry]:
        """Return those of the removed files that none of these tags, the newest first, has.

        Files never come back: a file that the newest tag lacks is in no older one, unless a
        branch took the table's place in between. So all tags that are younger than the file are
        asked.
        """
        untagged = dict(removed)
        for position, tag in enumerate(tags):
            latest = tag.time_millis + CLOCKS_APART_MILLIS
            asked = [
                path
                for path, entry in untagged.items()
                if position == 0 or (entry.file.creation_time or 0) <= latest
            ]
            if not asked:
                break
            names = self._names_of(tag)
            for path in asked:
                if untagged[path].file.file_name in names:
                    del untagged[path]
        return untagged

    def _removed_by(
        self, snapshot: Snapshot, partitions: PartitionSpec
    ) -> dict[str, ManifestEntry]:
        """Return the files that a snapshot deleted, by path; a file that only changed level
        stays."""
        removed: dict[str, ManifestEntry] = {}
        for entry in references.entries_if_there(self._store, snapshot.delta_manifest_list):
            path = _paths(entry, partitions)[0]
            if entry.kind == ADD:
                removed.pop(path, None)
            else:
                removed[path] = entry
        return removed

    def _metadata(
        self, expiring: Expiring, kept: _Kept, schema: TableSchema
    ) -> tuple[list[str], list[str]]:
        """List the paths of manifest lists, and of all other metadata, that nothing kept names."""
        expired, reads_deltas = expiring.expired, _reads_deltas(schema)
        unreferenced: set[str] = set()
        lists: set[str] = set()
        for snapshot in expired:
            names = [snapshot.base_manifest_list]
            unreferenced |= references.data_metadata(self._store, snapshot)
            names.append(snapshot.delta_manifest_list)
            if not expiring.keep_changelogs and snapshot.changelog_manifest_list is not None:
                unreferenced |= references.list_files(self._store, snapshot.changelog_manifest_list)
                names.append(snapshot.changelog_manifest_list)
            lists.update(paths.manifest(name) for name in names)
        named = references.data_metadata(self._store, expiring.kept, strict=True)
        named |= self._metadata_of(kept.tags_before(expiring.kept.id + 1))
        if reads_deltas:
            named |= self._deltas_of_changelogs()
            for snapshot in expired if expiring.keep_changelogs else ():
                named |= references.list_files(self._store, snapshot.delta_manifest_list)
        unreferenced -= named | kept.elsewhere.metadata
        return sorted(unreferenced & lists), sorted(unreferenced - lists)

    def _deltas_of_changelogs(self) -> set[str]:
        """List delta lists and manifests of the changelogs there are; each is read once."""
        ids = set(self._changelogs.ids())
        for number in [number for number in self._delta_lists if number not in ids]:
            del self._delta_lists[number]
        for number in ids - self._delta_lists.keys():
            for changelog in self._changelogs.range(number, number):
                self._delta_lists[number] = references.list_files(
                    self._store, changelog.delta_manifest_list
                )
        return set().union(*self._delta_lists.values())

    def _metadata_of(self, tags: Iterable[Snapshot]) -> set[str]:
        """List manifest lists, manifests and indexes of tags; each tag's are read once."""
        by_key = {_key(tag): tag for tag in tags}
        for key in [key for key in self._tag_metadata if key not in by_key]:
            del self._tag_metadata[key]
        for key in by_key.keys() - self._tag_metadata.keys():
            self._tag_metadata[key] = references.data_metadata(self._store, by_key[key])
        return set().union(*self._tag_metadata.values())

    def _names_of(self, tag: Snapshot) -> references.NameSet:
        key = _key(tag)
        if key not in self._tagged:
            names = references.NameSet()
            names.add(references.live_hashes(self._store, tag))
            self._tagged[key] = names
            if len(self._tagged) > _CACHED_TAGS:
                self._tagged.popitem(last=False)
        self._tagged.move_to_end(key)
        return self._tagged[key]


class _Kept:
    """The tags and branches that protect files, besides the snapshots that follow the expired.

    Args:
        tags: tagged snapshots by ascending id.
    """

    def __init__(self, tags: Sequence[Snapshot], elsewhere: references.References) -> None:
        self._tags = tags
        self.elsewhere = elsewhere

    def tags_before(self, snapshot_id: int) -> list[Snapshot]:
        """Return the tags of older snapshots, the newest first."""
        return [tag for tag in reversed(self._tags) if tag.id < snapshot_id]


def _key(tag: Snapshot) -> str:
    return f"{tag.base_manifest_list}/{tag.delta_manifest_list}"


def _state(root: ObjectStore) -> Hashable:
    """Return a value that changes when a history names other files."""
    folders = (paths.SNAPSHOT_DIR, paths.TAG_DIR, paths.CHANGELOG_DIR)
    return tuple(file for folder in folders for file in root.list(folder, recursive=False))


def _reads_deltas(schema: TableSchema) -> bool:
    """Whether changelogs are what snapshots added, there being no producer."""
    return schema.core.changelog_producer == "none"


def _paths(entry: ManifestEntry, partitions: PartitionSpec) -> list[str]:
    """Return a data file's path, and those of its extra files after it."""
    return partitions.files(entry.partition, entry.bucket, entry.file)
