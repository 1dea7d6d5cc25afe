"""The file sets of tables read lately, in memory: manifests never change once written."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence

from pkray.errors import CorruptFileError
from pkray.format import paths
from pkray.format.manifest import ManifestFileMeta
from pkray.metadata.live import read_entries
from pkray.scan.file_set import FileSet
from pkray.storage.object_store import ObjectStore

CACHED_BYTES = 128 << 20
"""Kept in a process, some 2 KB a file."""
SETS_OF_A_TABLE = 16
"""Kept: those of the newest snapshots, which a read looks through, and of readers of older ones."""

_EMPTY = FileSet.empty()
_Names = tuple[str, ...]
_Marks = tuple[Hashable, ...]
_Sets = OrderedDict[_Names, tuple[_Marks, FileSet]]


class FileSetCache:
    """File sets by the manifests that they are of; the least recently used go first. Thread-safe.

    The next snapshot's manifests mostly are those of the last one and a few more: then only these
    few are read, and applied to the set of the last one.
    """

    def __init__(self, capacity: int = CACHED_BYTES) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._held: OrderedDict[str, _Sets] = OrderedDict()  # by table
        self._bytes = 0

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def knows(self, store: ObjectStore, manifests: Sequence[ManifestFileMeta]) -> bool:
        """Whether no more than a few of the manifests would have to be read."""
        names = _names(manifests)
        with self._lock:
            start = self._longest_start(store.url, names)
        return start is not None and 2 * _entries(manifests[len(start) :]) <= _entries(manifests)

    def read(
        self, store: ObjectStore, manifests: Sequence[ManifestFileMeta], *, whole: bool = True
    ) -> FileSet:
        """Read the files that are left by the manifests, oldest first.

        Args:
            whole: they are all of a snapshot's, so that they hold each file that they delete.

        Raises:
            MissingFileError: a manifest is gone: the snapshot has expired.
            CorruptFileError: a manifest is damaged.
        """
        names = _names(manifests)
        marks = tuple(store.fingerprint(paths.manifest(name)) for name in names)
        with self._lock:
            start = self._longest_start(store.url, names)
            held = None if start is None else self._held[store.url][start]
            if start is not None and held is not None and held[0] == marks[: len(start)]:
                self._held.move_to_end(store.url)
                self._held[store.url].move_to_end(start)
            else:
                start, held = (), None
        files = _EMPTY if held is None else held[1]
        if len(start) < len(names):
            files, unmatched = files.apply(read_entries(store, manifests[len(start) :]))
            if unmatched and whole:
                lost = unmatched[0].file.file_name
                raise CorruptFileError(
                    f"the manifests of {store.url!r} delete the file {lost!r} that they do not "
                    "hold: they are damaged; roll back to an earlier snapshot",
                    path=lost,
                )
            self._put(store.url, names, marks, files)
        return files

    def clear(self) -> None:
        """Let go of all that is held."""
        with self._lock:
            self._held.clear()
            self._bytes = 0

    def _longest_start(self, url: str, names: _Names) -> _Names | None:
        """Find the cached set of most of these manifests, counted from the first; None without
        any."""
        sets = self._held.get(url, ())
        if names in sets:
            return names
        fitting = [
            known for known in sets if len(known) < len(names) and names[: len(known)] == known
        ]
        return max(fitting, key=len, default=None)

    def _put(self, url: str, names: _Names, marks: _Marks, files: FileSet) -> None:
        with self._lock:
            sets = self._held.setdefault(url, OrderedDict())
            self._held.move_to_end(url)
            if names in sets:
                self._bytes -= sets.pop(names)[1].nbytes
            if files.nbytes <= self._capacity // 2:
                sets[names] = marks, files
                self._bytes += files.nbytes
            if len(sets) > SETS_OF_A_TABLE:
                self._drop_oldest(url)
            while self._bytes > self._capacity:
                self._drop_oldest(next(iter(self._held)))
            if not sets:
                self._held.pop(url, None)

    def _drop_oldest(self, url: str) -> None:
        sets = self._held[url]
        self._bytes -= sets.popitem(last=False)[1][1].nbytes
        if not sets:
            del self._held[url]


file_sets = FileSetCache()
"""The file sets of this process."""


def _names(manifests: Sequence[ManifestFileMeta]) -> _Names:
    return tuple(manifest.file_name for manifest in manifests)


def _entries(manifests: Sequence[ManifestFileMeta]) -> int:
    return sum(manifest.num_added_files + manifest.num_deleted_files for manifest in manifests)
