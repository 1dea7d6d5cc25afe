"""Takes a table back to an earlier snapshot."""

import contextlib
from dataclasses import dataclass, fields

from pkray.arguments.whole_number import check_snapshot
from pkray.errors import OptionError, StorageError, TableError
from pkray.expiration.delete_files import delete_unreferenced
from pkray.format import paths
from pkray.format.snapshot import Snapshot, encode
from pkray.metadata.changelogs import ChangelogStore
from pkray.metadata.snapshots import SnapshotStore
from pkray.metadata.tags import TagStore
from pkray.schema.table_schema import TableSchema
from pkray.shown import html_values
from pkray.storage.branch_store import main_and_history
from pkray.storage.object_store import ObjectStore

_GUARD = "rollback-to-"


@dataclass(frozen=True)
class RollbackReport:
    """The outcome of a rollback.

    Args:
        snapshot: the newest snapshot from now on.
        removed_snapshots: ids, ascending.
        removed_tags: names, in order.
        deleted_files: data, changelog, index and metadata files that nothing names any more.
    """

    snapshot: Snapshot
    removed_snapshots: tuple[int, ...]
    removed_tags: tuple[str, ...]
    deleted_files: int

    def _repr_html_(self) -> str:
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return html_values(f"rollback to snapshot {self.snapshot.id}", said)


class Rollback:
    """Removes what came after a snapshot: snapshots, changelogs, tags, and the files only they
    named.

    Killed at any point it leaves a table as it was after some snapshot from the target on, and
    doing it again ends it; what it did not get to delete is the orphan cleaner's. The target is
    under a tag meanwhile, so that expiry does not take it.

    Args:
        store: the root of the table, or a branch.
        schema: the newest.
    """

    def __init__(self, store: ObjectStore, schema: TableSchema) -> None:
        self._store = store
        self._schema = schema
        self._main, self._history = main_and_history(store)
        self._snapshots = SnapshotStore(self._history)
        self._tags = TagStore(self._history, self._snapshots)
        self._changelogs = ChangelogStore(self._history)

    def to(self, snapshot_id: int | None, tag: str | None) -> RollbackReport:
        """Make a snapshot the newest, or a tag's; as ``Table.rollback_to``.

        Raises:
            OptionError: none of them or both.
        """
        check_snapshot("snapshot_id", snapshot_id)
        if snapshot_id is not None and tag is None:
            return self.to_snapshot(snapshot_id)
        if tag is not None and snapshot_id is None:
            return self.to_tag(tag)
        raise OptionError(
            "a rollback goes back to what snapshot_id or tag names: give one of them",
            snapshot_id=snapshot_id,
            tag=tag,
            arguments=("snapshot_id", "tag"),
        )

    def to_snapshot(self, snapshot_id: int) -> RollbackReport:
        """Make a snapshot the newest.

        Raises:
            SnapshotNotFoundError: it has expired or was never made.
        """
        target = self._snapshots.read(snapshot_id, fresh=True)
        guard = self._guard(target)
        report = self._run(target)
        self._tags.delete(guard)
        return report

    def to_tag(self, name: str) -> RollbackReport:
        """Make the snapshot of a tag the newest, even if it has expired.

        Raises:
            TagNotFoundError: there is no such tag.
            TableError: the tag is of a snapshot that was rolled back before.
        """
        target = self._tags.get(name).snapshot
        latest = self._snapshots.latest()
        there = self._snapshots.exists(target.id) and not self._snapshots.holds(target)
        if there or latest is None or latest.id < target.id:
            raise TableError(
                f"tag {name!r} of {self._store.url!r} is of a snapshot {target.id} that was "
                "rolled back: read the tag, or make a branch of it",
                tag=name,
                snapshot_id=target.id,
            )
        return self._run(target)

    def _guard(self, target: Snapshot) -> str:
        name = f"{_GUARD}{target.id}"
        left = self._tags.find(name)  # by one that was killed
        if left is not None and left.snapshot != target:
            self._tags.delete(name)
        self._tags.create(name, target, if_not_exists=True)
        return name

    def _run(self, target: Snapshot) -> RollbackReport:
        tags = [tag for tag in self._tags.tags() if tag.snapshot.id > target.id]
        for tag in tags:
            self._tags.delete(tag.name)
        changelogs = self._changelogs.remove_from(target.id + 1)
        removed = self._remove_snapshots(target)
        changelogs += self._changelogs.remove_from(target.id)  # the snapshot itself is back
        whole = [tag.snapshot for tag in tags]
        if removed and removed[-1].id > target.id + 1:  # those that expired between added files too
            whole.append(removed[-1])
        self._snapshots.write_hints()
        deleted = 0
        with contextlib.suppress(StorageError):  # what stays is the orphan cleaner's
            deleted = delete_unreferenced(self._main, self._schema, [*removed, *changelogs], whole)
        return RollbackReport(
            target,
            tuple(sorted({snapshot.id for snapshot in removed})),
            tuple(tag.name for tag in tags if not tag.name.startswith(_GUARD)),
            deleted,
        )

    def _remove_snapshots(self, target: Snapshot) -> list[Snapshot]:
        """Remove the later snapshots; those removed.

        An expired target is restored while one later snapshot is left: at no time is there none,
        and the newest one is always known.
        """
        removed: list[Snapshot] = []
        if not self._snapshots.exists(target.id):
            later = [number for number in self._snapshots.ids() if number > target.id]
            removed += self._snapshots.remove_from(min(later, default=target.id) + 1)
            self._history.delete(paths.LATEST_HINT)
            self._history.create(paths.snapshot(target.id), encode(target))
        removed += self._snapshots.remove_from(target.id + 1)
        if not self._snapshots.exists(target.id):  # it expired meanwhile
            self._history.create(paths.snapshot(target.id), encode(target))
        return removed
