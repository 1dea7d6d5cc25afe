"""Changelogs that outlive their snapshots."""

import builtins
import contextlib
from collections.abc import Iterator

from pkray.errors import MissingFileError, SnapshotNotFoundError
from pkray.format import paths
from pkray.format.snapshot import Snapshot, decode, encode
from pkray.metadata.named_files import find_earliest, numbered_files, read_hint, write_hint
from pkray.storage.object_store import ObjectStore

_PREFIX = f"{paths.CHANGELOG_DIR}/changelog-"
EARLIEST_HINT = f"{paths.CHANGELOG_DIR}/EARLIEST"
LATEST_HINT = f"{paths.CHANGELOG_DIR}/LATEST"


class ChangelogStore:
    """Reads and writes ``changelog/changelog-<N>``: what is left of an expired snapshot.

    Such a file is the snapshot's own JSON. Of what it names there is only what the changelog is
    read from: its changelog manifests and files or, where the table has no changelog producer,
    its delta manifests and the files they add. Ids are contiguous and end before the earliest
    snapshot. Hints are never trusted.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def ids(self) -> list[int]:
        """List the ids, ascending, by listing the directory."""
        return sorted(number for number, _ in numbered_files(self._store, _PREFIX))

    def earliest_id(self) -> int | None:
        """Return the oldest changelog's id, or None."""
        return find_earliest(self._store, EARLIEST_HINT, self._exists, self.ids)

    def latest_id(self) -> int | None:
        """Return the newest changelog's id, or None."""
        hint = read_hint(self._store, LATEST_HINT)
        if hint and self._exists(hint) and not self._exists(hint + 1):
            return hint
        return max(self.ids(), default=None)

    def read(self, snapshot_id: int) -> Snapshot:
        """Return the snapshot that the changelog is of.

        Raises:
            SnapshotNotFoundError: the changelog has expired too, or was never kept.
            CorruptFileError: its file is damaged.
        """
        path = paths.long_lived_changelog(snapshot_id)
        try:
            data = self._store.read(path)
        except MissingFileError as error:
            known = self.ids()
            there = f"{known[0]} to {known[-1]} are there" if known else "there are none"
            raise SnapshotNotFoundError(
                f"the changelog of snapshot {snapshot_id} has expired or was never made: of "
                f"changelogs that outlive their snapshots {there}",
                snapshot_id=snapshot_id,
                path=path,
            ) from error
        return decode(data, self._store.location(path), snapshot_id)

    def range(self, first: int, last: int) -> Iterator[Snapshot]:
        """Yield changelogs first..last, both included, ascending; missing ones are left out."""
        for snapshot_id in builtins.range(first, last + 1):
            with contextlib.suppress(SnapshotNotFoundError):
                yield self.read(snapshot_id)

    def all(self) -> Iterator[Snapshot]:
        """Yield every changelog, oldest first."""
        ids = self.ids()
        if ids:
            yield from self.range(ids[0], ids[-1])

    def write(self, snapshots: list[Snapshot]) -> None:
        """Keep the changelogs of these snapshots, ascending ids."""
        for snapshot in snapshots:
            self._store.write(paths.long_lived_changelog(snapshot.id), encode(snapshot))
        if snapshots:
            earliest = read_hint(self._store, EARLIEST_HINT)
            if earliest is None or not self._exists(earliest):
                write_hint(self._store, EARLIEST_HINT, min(self.ids()))
            write_hint(self._store, LATEST_HINT, snapshots[-1].id)

    def delete(self, snapshot_ids: list[int], earliest: int | None) -> None:
        """Remove the files of changelogs, oldest first; ``earliest`` is the oldest one left."""
        for snapshot_id in snapshot_ids:
            self._store.delete(paths.long_lived_changelog(snapshot_id))
        if earliest is None:
            self._store.delete([EARLIEST_HINT, LATEST_HINT])
        else:
            write_hint(self._store, EARLIEST_HINT, earliest)

    def remove_from(self, first: int) -> list[Snapshot]:
        """Remove the changelogs from an id on, newest first; those removed."""
        removed = []
        for number in reversed([number for number in self.ids() if number >= first]):
            self._store.delete(LATEST_HINT)
            with contextlib.suppress(SnapshotNotFoundError):
                removed.append(self.read(number))
            self._store.delete(paths.long_lived_changelog(number))
        return removed

    def _exists(self, snapshot_id: int) -> bool:
        return self._store.exists(paths.long_lived_changelog(snapshot_id))
