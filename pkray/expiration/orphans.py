"""Files in a table's folders that nothing names: left by writers and commits that were killed."""

import itertools
import re
from collections.abc import Callable, Iterator

from pkray.expiration.references import References, branch_roots, collect, collect_snapshot
from pkray.format import paths
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema.table_schema import TableSchema
from pkray.storage.branch_store import main_and_history
from pkray.storage.object_store import FileStatus, ObjectStore

_BATCH = 1000
"""Files deleted between two looks at what has been committed: one request to S3 deletes so many."""
_NAMED = (paths.MANIFEST_DIR, paths.INDEX_DIR, paths.STATISTICS_DIR)
_NUMBERED = (paths.SNAPSHOT_DIR, paths.CHANGELOG_DIR)
_KEPT_NAME = re.compile(r"(snapshot|changelog)-\d+|EARLIEST|LATEST|EXPIRING")


class OrphanFiles:
    """Finds the orphans of a table and its branches, in memory of 8 bytes a live file.

    Args:
        store: the table's root, or a branch.
        schema: the table's newest.
    """

    def __init__(self, store: ObjectStore, schema: TableSchema) -> None:
        self._store, _ = main_and_history(store)
        self._depth = len(schema.partition_keys)
        self._deltas = schema.core.changelog_producer == "none"
        self._references = References()
        self._seen: dict[str, int] = {}

    def find(
        self, before_millis: int, progress: Callable[[int], None] = lambda _: None
    ) -> Iterator[list[FileStatus]]:
        """Yield the orphans last modified before a time, some at a time.

        What is committed while this runs is looked at before each of them is yielded: files of a
        commit in flight are spared by their age, or because it has named them.

        Args:
            before_millis: epoch milliseconds.
            progress: called with the number of files looked at so far.

        Raises:
            MissingFileError: something kept names a file that is gone, so that it is not known
                what it names in turn; nothing is yielded.
        """
        self._read_new_snapshots()
        old = self._old_unnamed(before_millis, progress)
        while batch := list(itertools.islice(old, _BATCH)):
            self._read_new_snapshots()
            orphans = [file for file in batch if self._is_unnamed(file.path)]
            if orphans:
                yield orphans

    def _old_unnamed(
        self, before_millis: int, progress: Callable[[int], None]
    ) -> Iterator[FileStatus]:
        looked_at = 0
        for file in self._store.list("", hidden=True):
            looked_at += 1
            if looked_at % _BATCH == 0:
                progress(looked_at)
            if file.modified_millis < before_millis and self._is_unnamed(file.path):
                yield file
        progress(looked_at)

    def _read_new_snapshots(self) -> None:
        """Take in what has been committed since the last time."""
        for root in (self._store, *branch_roots(self._store)):
            seen = self._seen.get(root.url)
            if seen is None:
                latest = collect(self._store, root, self._references, deltas=self._deltas)
            else:
                snapshots = SnapshotStore(root)
                latest = snapshots.latest_id() or 0
                for number in range(seen + 1, latest + 1):
                    collect_snapshot(self._store, snapshots, number, self._references, whole=False)
            self._seen[root.url] = latest

    def _is_unnamed(self, path: str) -> bool:
        """Whether it is a file of the kinds that something has to name, and nothing does."""
        folder, _, name = path.rpartition("/")
        if name.startswith(".") and name.endswith(".tmp"):
            return True
        parts = folder.split("/")
        if parts[0] == paths.BRANCH_DIR:
            parts = parts[2:]
        if parts[:1] in [[each] for each in _NUMBERED] and len(parts) == 1:
            return _KEPT_NAME.fullmatch(name) is None
        if folder in _NAMED:
            return path not in self._references.metadata
        if len(parts) == self._depth + 1 and paths.bucket_of(folder) is not None:
            is_data = all("=" in part for part in parts[:-1])
            return is_data and name not in self._references.data
        return False
