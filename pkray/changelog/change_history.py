"""Find the snapshots whose changes can be read: live ones, and expired ones' changelogs."""

from pkray.arguments.whole_number import check_snapshot
from pkray.errors import OptionError, SnapshotNotFoundError
from pkray.format import paths
from pkray.format.snapshot import COMPACT, Snapshot
from pkray.metadata.changelogs import ChangelogStore
from pkray.metadata.snapshots import SnapshotStore
from pkray.metadata.tags import TagStore
from pkray.scan.moment import Timestamp, epoch_millis
from pkray.storage.object_store import ObjectStore


class ChangeHistory:
    """Finds snapshots by id, tag or time.

    Args:
        store: the table's root, or a branch.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._url = store.url
        self._snapshots = SnapshotStore(store)
        self._changelogs = ChangelogStore(store)
        self._tags = TagStore(store, self._snapshots)

    def latest(self) -> Snapshot | None:
        """Find the newest snapshot; None before the first."""
        return self._snapshots.latest()

    @property
    def rollbacks(self) -> int:
        """Grows when `latest` finds that the table was rolled back."""
        return self._snapshots.rollbacks

    @property
    def invalidations(self) -> int:
        """The number of times that what was read proved wrong: see `SnapshotStore`."""
        return self._snapshots.invalidations

    def holds(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot, or its changelog, is there, or expired in good order."""
        return self._snapshots.rests_on(snapshot)

    def earliest_id(self) -> int | None:
        """Find the id of the oldest changes that can be read. Changelogs may outlive their
        snapshots, and a snapshot that came back by a tag has no changelog."""
        earliest = self._changelogs.earliest_id() or self._snapshots.earliest_id()
        while earliest is not None and not self._has_changes(earliest):
            earliest += 1
        return earliest

    def earliest_whole_id(self) -> int | None:
        """Find the id of the oldest snapshot whose files are all there."""
        return self._snapshots.earliest_id()

    def find(self, snapshot_id: int) -> Snapshot:
        """Read a snapshot, or what is left of it for its changelog.

        Raises:
            SnapshotNotFoundError: neither is there; says from where changes can be read.
        """
        try:
            return self._find(snapshot_id)
        except SnapshotNotFoundError as error:
            raise self._gap(snapshot_id) from error

    def whole(self, snapshot_id: int) -> Snapshot:
        """Read a snapshot whose files are all there. Raises `SnapshotNotFoundError`."""
        return self._snapshots.read(snapshot_id, fresh=True)

    def tagged(self, tag: str) -> Snapshot:
        """Read the snapshot of a tag. Raises `TagNotFoundError`."""
        return self._tags.get(tag).snapshot

    def find_tag(self, name: str) -> Snapshot | None:
        """Read the snapshot of a tag; None where there is no such tag."""
        tag = self._tags.find(name)
        return None if tag is None else tag.snapshot

    def first_since(self, timestamp: Timestamp) -> int:
        """Find the id of the oldest changes since a time; of those to come if there are none."""
        millis = epoch_millis(timestamp)
        latest = self.latest()
        low, end = self.earliest_id(), 1 if latest is None else latest.id + 1
        if low is None:
            return end
        high = end
        while low < high:
            middle = (low + high) // 2
            if self._is_before(middle, millis):
                low = middle + 1
            else:
                high = middle
        return low

    def last_until(self, timestamp: Timestamp) -> int:
        """Find the id of the newest changes of a time or before; 0 if there are none."""
        return self.first_since(epoch_millis(timestamp) + 1) - 1

    def newest_compacted(self) -> Snapshot | None:
        """Find the newest snapshot that a compaction made; None where there is none."""
        latest = self.latest()
        for snapshot in self._snapshots.backwards(latest.id if latest else 0):
            if snapshot.commit_kind == COMPACT:
                return snapshot
        return None

    def id_of(
        self, snapshot_id: int | None, tag: str | None, timestamp: Timestamp | None, *, is_end: bool
    ) -> int | None:
        """Resolve one end of a range of changes to a snapshot's id; None where the end is not
        given.

        Raises:
            OptionError: it is said twice, or is no id or no time.
            TagNotFoundError: there is no such tag.
        """
        check_snapshot(f"{'to' if is_end else 'from'}_snapshot", snapshot_id)
        if sum(each is not None for each in (snapshot_id, tag, timestamp)) > 1:
            end = "to" if is_end else "from"
            first, *others = (f"{end}_{what}" for what in ("snapshot", "tag", "timestamp"))
            raise OptionError(
                f"{first}, {' and '.join(others)} name one end: give one of them",
                arguments=(first, *others),
            )
        if tag is not None:
            return self.tagged(tag).id
        if timestamp is not None:
            return self.last_until(timestamp) if is_end else self.first_since(timestamp)
        return snapshot_id

    def _find(self, snapshot_id: int) -> Snapshot:
        try:
            return self._snapshots.read(snapshot_id, fresh=True)
        except SnapshotNotFoundError:
            return self._changelogs.read(snapshot_id)

    def _has_changes(self, snapshot_id: int) -> bool:
        try:
            name = self._find(snapshot_id).changelog_manifest_list
        except SnapshotNotFoundError:  # to come, or expired meanwhile
            return True
        return name is None or self._store.exists(paths.manifest(name))

    def _is_before(self, snapshot_id: int, millis: int) -> bool:
        try:
            return self.find(snapshot_id).time_millis < millis
        except SnapshotNotFoundError:  # expired meanwhile: older than all that are there
            return True

    def _gap(self, snapshot_id: int) -> SnapshotNotFoundError:
        earliest, latest = self.earliest_id(), self._snapshots.latest_id()
        if latest is None or earliest is None or earliest > latest:
            there = "there are none yet"
        else:
            those = f"{earliest} to {latest}" if earliest != latest else f"{latest} alone"
            there = f"those of {those} are there: read from one of these on"
        what = "have expired" if latest is None or snapshot_id <= latest else "were never made"
        return SnapshotNotFoundError(
            f"the changes of snapshot {snapshot_id} of {self._url!r} {what}: {there}, or read the "
            "whole table first",
            snapshot_id=snapshot_id,
            earliest=earliest,
            latest=latest,
        )
