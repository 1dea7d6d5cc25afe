"""Collects the files that snapshots, tags, changelogs and branches name."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pkray.errors import MissingFileError
from pkray.format import paths
from pkray.format.data_file import ADD, ManifestEntry
from pkray.format.manifest import ManifestFileMeta
from pkray.format.snapshot import Snapshot
from pkray.metadata import manifest_cache
from pkray.metadata.changelogs import ChangelogStore
from pkray.metadata.live import data_manifests, file_id, read_entries
from pkray.metadata.snapshots import SnapshotStore
from pkray.metadata.tags import TagStore
from pkray.storage.object_store import ObjectStore

Hashes = npt.NDArray[np.int64]


class NameSet:
    """A set of names by their 64-bit hashes: 8 bytes a name.

    A name that is not in it may seem to be, once in a very long time: such a file stays.
    """

    def __init__(self) -> None:
        self._parts: list[Hashes] = []
        self._sorted = np.empty(0, np.int64)

    def add(self, hashes: Hashes) -> None:
        self._parts.append(hashes)

    def add_names(self, names: Iterable[str]) -> None:
        self.add(np.fromiter(map(hash, names), np.int64))

    def update(self, other: NameSet) -> None:
        """Add the names of another set."""
        self._parts += [other._sorted, *other._parts]

    def __contains__(self, name: str) -> bool:
        known = self._settled()
        position = int(np.searchsorted(known, hash(name)))
        return position < len(known) and int(known[position]) == hash(name)

    def __len__(self) -> int:
        return len(self._settled())

    def _settled(self) -> Hashes:
        if self._parts:
            self._sorted = np.unique(np.concatenate([self._sorted, *self._parts]))
            self._parts = []
        return self._sorted


@dataclass
class References:
    """Files that something kept names.

    Args:
        metadata: paths of manifests, lists, index manifests, index files and statistics.
        data: names of data files and changelog files.
    """

    metadata: set[str] = field(default_factory=set)
    data: NameSet = field(default_factory=NameSet)


def read_list_if_there(store: ObjectStore, name: str | None) -> list[ManifestFileMeta]:
    """Read the manifests of a list; none where the list is gone."""
    if name is None:
        return []
    try:
        return manifest_cache.manifest_lists.read(store, name)
    except MissingFileError:
        return []


def entries_if_there(store: ObjectStore, list_name: str | None) -> Iterator[ManifestEntry]:
    """Yield the entries of a list's manifests; missing manifests are left out."""
    for manifest in read_list_if_there(store, list_name):
        try:
            yield from manifest_cache.manifests.read(store, manifest.file_name, manifest.file_size)
        except MissingFileError:
            continue


def list_files(store: ObjectStore, name: str | None, *, strict: bool = False) -> set[str]:
    """List the paths of a manifest list and of the manifests it names.

    Raises:
        MissingFileError: the list is gone, where that is not to be passed over.
    """
    if name is None:
        return set()
    if strict:
        manifests = manifest_cache.manifest_lists.read(store, name)
    else:
        manifests = read_list_if_there(store, name)
    return {paths.manifest(name), *(paths.manifest(each.file_name) for each in manifests)}


def data_metadata(store: ObjectStore, snapshot: Snapshot, *, strict: bool = False) -> set[str]:
    """List the paths of what leads to a snapshot's rows: lists, manifests, indexes and statistics.

    Raises:
        MissingFileError: one of them is gone, where that is not to be passed over.
    """
    found = list_files(store, snapshot.base_manifest_list, strict=strict)
    found |= list_files(store, snapshot.delta_manifest_list, strict=strict)
    if snapshot.index_manifest is not None:
        found.add(paths.manifest(snapshot.index_manifest))
        found |= index_paths(store, snapshot.index_manifest, strict=strict)
    if snapshot.statistics is not None:
        found.add(paths.statistics(snapshot.statistics))
    return found


def index_paths(store: ObjectStore, index_manifest: str, *, strict: bool = False) -> set[str]:
    """List the paths of the index files of an index manifest; none where it is gone."""
    try:
        entries = manifest_cache.index_manifests.read(store, index_manifest)
    except MissingFileError:
        if strict:
            raise
        return set()
    return {paths.index(entry.file.file_name) for entry in entries}


def live_hashes(store: ObjectStore, snapshot: Snapshot) -> Hashes:
    """Hash the names of a snapshot's data files, in 32 bytes a manifest entry.

    Raises:
        MissingFileError: a manifest is gone.
    """
    files, signs, names, extra = array("q"), array("b"), array("q"), array("q")
    for entry in read_entries(store, data_manifests(store, snapshot)):
        files.append(hash(file_id(entry)))
        signs.append(1 if entry.kind == ADD else -1)
        names.append(hash(entry.file.file_name))
        if entry.kind == ADD:
            extra.extend(hash(name) for name in entry.file.extra_files)
    if not files:
        return np.empty(0, np.int64)
    _, first, inverse = np.unique(
        np.frombuffer(files, np.int64), return_index=True, return_inverse=True
    )
    counts = np.bincount(inverse, weights=np.frombuffer(signs, np.int8))
    live = np.frombuffer(names, np.int64)[first[counts > 0]]
    return np.concatenate([live, np.frombuffer(extra, np.int64)]) if extra else live


def added_names(entries: Iterable[ManifestEntry]) -> Iterator[str]:
    """Yield the names of the files that entries add, and of their extra files."""
    for entry in entries:
        if entry.kind == ADD:
            yield from entry.file.names


def collect(store: ObjectStore, history: ObjectStore, found: References, *, deltas: bool) -> int:
    """Add all that a history's snapshots, tags and changelogs name; its newest snapshot's id.

    Args:
        store: where manifests and data lie.
        history: the root of the snapshots: the table's, or a branch's.
        deltas: whether changelogs are read from delta manifests (no changelog producer).

    Raises:
        MissingFileError: a file is gone that a snapshot still there names: nothing may be
            concluded from the rest.
    """
    snapshots = SnapshotStore(history)
    latest = snapshots.latest_id() or 0
    earliest = snapshots.earliest_id() or 1
    first = True
    for number in range(earliest, latest + 1):
        first = not collect_snapshot(store, snapshots, number, found, whole=first) and first
    for tagged in TagStore(history).all().values():
        found.data.add(live_hashes(store, tagged))
        found.metadata |= data_metadata(store, tagged, strict=True)
    for changelog in ChangelogStore(history).all():
        collect_changelog(store, changelog, found, deltas=deltas)
    return latest


def collect_snapshot(
    store: ObjectStore, snapshots: SnapshotStore, number: int, found: References, *, whole: bool
) -> bool:
    """Add what one snapshot names; False if it has expired.

    Args:
        whole: all of its data files; else only those it added.
    """
    if not snapshots.exists(number):
        return False
    snapshot = snapshots.read(number)
    try:
        if whole:
            found.data.add(live_hashes(store, snapshot))
        else:
            manifests = manifest_cache.manifest_lists.read(store, snapshot.delta_manifest_list)
            found.data.add_names(added_names(read_entries(store, manifests)))
        collect_changelog(store, snapshot, found, deltas=False)
        found.metadata |= data_metadata(store, snapshot, strict=True)
    except MissingFileError:
        if snapshots.exists(number):
            raise
        return False
    return True


def collect_changelog(
    store: ObjectStore, snapshot: Snapshot, found: References, *, deltas: bool
) -> None:
    """Add what the changelog of a snapshot is read from."""
    names = [snapshot.changelog_manifest_list]
    if deltas:
        names.append(snapshot.delta_manifest_list)
    for name in names:
        found.metadata |= list_files(store, name)
        found.data.add_names(added_names(entries_if_there(store, name)))


def branch_roots(store: ObjectStore) -> list[ObjectStore]:
    """List the stores in which a table's branches keep their snapshots and tags."""
    return [store.child(path) for path in store.list_dirs(paths.BRANCH_DIR)]
