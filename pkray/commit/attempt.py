"""Writes the manifests of one change and creates its snapshot, once or again."""

from collections.abc import Callable

from pkray import errors
from pkray.commit.change import Change
from pkray.commit.index_files import apply_changes, index_entries
from pkray.commit.manifest_files import ManifestFiles, WrittenList, send
from pkray.commit.manifest_merge import merge_manifests
from pkray.format import paths
from pkray.format.data_file import ADD
from pkray.format.snapshot import CARRIED, VERSION, Snapshot
from pkray.metadata.live import data_manifests, delta_entries, live_files
from pkray.metadata.schemas import TableIdentity
from pkray.metadata.snapshots import Below, SnapshotStore
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore, together

MAX_IN_DOUBT = 3
"""Lost answers after which the outcome of a commit is unknown: by then the store itself fails."""


class Attempt:
    """Tries to publish one change, with the files that it has written for it.

    Args:
        names: gives the names of new manifests.
        clock: epoch milliseconds.
        identity: of the table that is expected; None: whichever is there.
    """

    def __init__(
        self,
        store: ObjectStore,
        snapshots: SnapshotStore,
        schema: TableSchema,
        names: paths.FileNames,
        clock: Callable[[], int],
        change: Change,
        identity: TableIdentity | None = None,
    ) -> None:
        self._store = store
        self._snapshots = snapshots
        self._schema = schema
        self._names = names
        self._clock = clock
        self._change = change
        self._identity = identity
        self._own = self._manifest_files()
        self._base_files = self._manifest_files()
        self._lists: tuple[WrittenList, WrittenList | None] | None = None
        self._base: tuple[Snapshot | None, WrittenList] | None = None
        self._index: tuple[Snapshot | None, str | None] | None = None
        self._in_doubt = 0
        self._certain = True
        self._deltas: set[str] = set()

    def publish(
        self, latest: Snapshot | None, check_newest_writer: Callable[[], None] = lambda: None
    ) -> Snapshot | None:
        """Try to be the snapshot after the latest; None if that id was taken.

        Args:
            check_newest_writer: called after the latest was seen, and before anything is
                published.

        Raises:
            CommitFencedError: the writer is not the newest; nothing was published.
            CommitConflictError: a rollback removed the latest meanwhile, and with it this one.
            CommitUnknownError: the store gave no answer, several times.
            StorageError: writing failed; nothing was published.
            TableReplacedError: another table is there; nothing was published.
            UnsupportedError: the store replaces files that it is to create; likewise.
        """
        *_, snapshot = together(
            self._store,
            check_newest_writer,
            self._check_identity,
            self._store.check_creates,
            lambda: self._written(latest),
        )
        published = self._publish(snapshot)
        if published is None:
            return None
        replaced, below, _ = together(
            self._store,
            self._replaced,
            lambda: self._look_below(latest),
            lambda: self._snapshots.follow_with_hints(published),
        )
        if replaced is not None:
            self._snapshots.remove_published(published)
            raise replaced
        if below == "expired" and self._is_late(published):
            self._snapshots.remove_published(published)
            return None
        if below != "lost":
            self._snapshots.note_published(published)
            return published
        # The rollback may have met it, and delete its files: it is not to come again.
        try:
            self._snapshots.remove_from(snapshot.id)
        except errors.StorageError as error:
            raise self._unknown(error) from error
        raise self.rolled_back()

    @property
    def may_be_there(self) -> bool:
        """Whether the store left it open if a snapshot was created."""
        return not self._certain

    def rolled_back(self) -> errors.CommitConflictError:
        """Make the error for a commit that a rollback took with it."""
        change = self._change
        return errors.CommitConflictError(
            f"commit {change.identifier} of {change.user!r} to {self._store.url!r} met a rollback "
            "of the table, which took it along; nothing is committed: write its rows again",
            user=change.user,
            identifier=change.identifier,
        )

    def _publish(self, snapshot: Snapshot) -> Snapshot | None:
        try:
            if self._snapshots.create(snapshot):
                return snapshot
        except errors.StorageError as error:
            return self._find_after(error, snapshot)
        try:
            return self._find(snapshot)
        except errors.StorageError as error:
            raise self._unknown(error) from error

    def _check_identity(self) -> None:
        if self._identity is not None:
            self._identity.check_same_table()

    def _replaced(self) -> errors.TableError | None:
        """Return the error if the table was replaced just before a snapshot was published."""
        try:
            self._check_identity()
        except errors.TableError as error:
            return error
        except errors.StorageError:  # a replacement at this very moment is less likely
            return None
        return None

    def _look_below(self, base: Snapshot | None) -> Below:
        try:
            if base is not None:
                return self._snapshots.look_below(base)
            return "there" if self._snapshots.ids() == [1] else "expired"
        except errors.StorageError:  # a rollback at this very moment is less likely
            return "there"

    def _is_late(self, published: Snapshot) -> bool:
        """Whether its id was free because the snapshot that had it has expired: this process was
        stopped for so long. Others have been published since, and do not build on this one."""
        above = [number for number in self._snapshots.ids() if number > published.id]
        if not above or above[0] != published.id + 1:
            return bool(above)
        after = self._snapshots.read(above[0])
        added = {entry.file.file_name for entry in self._change.entries if entry.kind == ADD}
        entries = [*live_files(self._store, after), *delta_entries(self._store, after)]
        return bool(added) and added.isdisjoint(entry.file.file_name for entry in entries)

    def renew(self, change: Change) -> None:
        """Publish other entries from now on: the snapshot that they build on is another."""
        if change == self._change:
            return
        if self._certain:
            self._own.discard()
        self._own = self._manifest_files()
        self._lists = self._index = None
        self._change = change

    def wrote(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot that carries the change's uuid is this attempt's: a commit may be
        repeated under it, with other files."""
        return snapshot.delta_manifest_list in self._deltas

    def discard(self) -> None:
        """Delete the files of a change, unless a snapshot may name them."""
        if self._certain:
            together(self._store, self._own.discard, self._base_files.discard)

    def _find(self, snapshot: Snapshot) -> Snapshot | None:
        """Return our snapshot if it is the one with its id: creating it succeeded unnoticed."""
        try:
            there = self._snapshots.read(snapshot.id, fresh=True)
        except errors.SnapshotNotFoundError:
            return None
        if there.uuid != snapshot.uuid or not self.wrote(there):
            return None
        return there

    def _find_after(self, error: errors.StorageError, snapshot: Snapshot) -> Snapshot | None:
        try:
            found = self._find(snapshot)
        except errors.StorageError as second:
            raise self._unknown(second) from error
        if found is not None:
            return found
        if isinstance(error, errors.StorageFullError) or self._store.local_path("") is not None:
            raise error  # it failed for certain
        # The request may still be under way: what it names must stay.
        self._certain = False
        self._in_doubt += 1
        if self._in_doubt >= MAX_IN_DOUBT:
            raise self._unknown(error) from error
        return None

    def _unknown(self, error: errors.StorageError) -> errors.CommitUnknownError:
        self._certain = False
        change, user = self._change, self._change.user
        return errors.CommitUnknownError(
            f"whether commit {change.identifier} of {user!r} to {self._store.url!r} happened is "
            f"not known, as the store does not answer: {error.message}; {change.again}",
            user=user,
            identifier=change.identifier,
        )

    def _manifest_files(self) -> ManifestFiles:
        return ManifestFiles(self._store, self._schema, self._names)

    def _written(self, latest: Snapshot | None) -> Snapshot:
        """Make the snapshot, with all that it names written."""
        snapshot = self._snapshot(latest)
        send(self._store, [self._own, self._base_files])
        return snapshot

    def _snapshot(self, latest: Snapshot | None) -> Snapshot:
        change = self._change
        delta, changelog = self._delta_and_changelog()
        base = self._base_list(latest)
        total, watermark, now = self._carried(latest)
        return Snapshot(
            version=VERSION,
            id=latest.id + 1 if latest else 1,
            schema_id=self._schema.id,
            base_manifest_list=base.name,
            base_manifest_list_size=base.size,
            delta_manifest_list=delta.name,
            delta_manifest_list_size=delta.size,
            changelog_manifest_list=changelog.name if changelog else None,
            changelog_manifest_list_size=changelog.size if changelog else None,
            index_manifest=self._index_manifest(latest),
            commit_user=change.user,
            commit_identifier=change.identifier,
            commit_kind=change.kind,
            time_millis=now,
            log_offsets={},
            total_record_count=total + change.added_rows,
            delta_record_count=change.added_rows,
            changelog_record_count=sum(entry.file.row_count for entry in change.changelog),
            watermark=watermark,
            statistics=self._statistics(latest),
            properties=self._properties(latest),
            next_row_id=latest.next_row_id if latest else None,
            uuid=change.token,
        )

    def _delta_and_changelog(self) -> tuple[WrittenList, WrittenList | None]:
        if self._lists is None:
            change, files = self._change, self._own
            delta = files.write_list(files.write_manifests(change.entries))
            changelog = None
            if change.changelog:
                changelog = files.write_list(files.write_manifests(change.changelog))
            self._lists = delta, changelog
            self._deltas.add(delta.name)
        return self._lists

    def _base_list(self, latest: Snapshot | None) -> WrittenList:
        if self._base is not None and self._base[0] == latest:
            return self._base[1]
        if self._certain:
            self._base_files.discard()
        self._base_files = self._manifest_files()
        manifests = data_manifests(self._store, latest) if latest else []
        merged = merge_manifests(self._store, manifests, self._base_files, self._schema.core)
        self._base = latest, self._base_files.write_list(merged)
        return self._base[1]

    def _index_manifest(self, latest: Snapshot | None) -> str | None:
        """Write it with the base files, as it too builds on the latest snapshot."""
        before = latest.index_manifest if latest else None
        if not self._change.index:
            return before
        if self._index is None or self._index[0] != latest:
            entries = apply_changes(index_entries(self._store, latest), self._change.index)
            name = self._base_files.write_index(entries) if entries else None
            self._index = latest, name
        return self._index[1]

    def _carried(self, latest: Snapshot | None) -> tuple[int, int | None, int]:
        """Return the row count before, the watermark and the time; the last two never go back."""
        now = self._clock()
        if latest is None:
            return 0, self._change.watermark, now
        total = latest.total_record_count
        if total is None:  # written by Paimon before 0.4
            total = sum(entry.file.row_count for entry in live_files(self._store, latest))
        marks = [m for m in (latest.watermark, self._change.watermark) if m is not None]
        return total, max(marks, default=None), max(now, latest.time_millis)

    def _properties(self, latest: Snapshot | None) -> dict[str, str] | None:
        """Add the places that sources have reached, whoever commits: older snapshots expire."""
        before = (latest.properties if latest else None) or {}
        carried = {name: value for name, value in before.items() if name.startswith(CARRIED)}
        return {**carried, **(self._change.properties or {})} or None

    def _statistics(self, latest: Snapshot | None) -> str | None:
        if latest is None or latest.schema_id != self._schema.id:
            return None
        return latest.statistics
