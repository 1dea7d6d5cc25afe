"""Makes, removes and takes over branches: histories of their own above a table's files."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from pkray import errors
from pkray.arguments.file_names import ALLOWED, MOST_CHOSEN_BYTES, fault
from pkray.expiration.delete_files import delete_unreferenced
from pkray.format import paths
from pkray.format.snapshot import Snapshot, encode
from pkray.format.tag import Tag
from pkray.format.tag import encode as encode_tag
from pkray.metadata.changelogs import ChangelogStore
from pkray.metadata.schemas import SchemaStore
from pkray.metadata.snapshots import SnapshotStore
from pkray.metadata.tags import TagStore
from pkray.storage.branch_store import main_and_history
from pkray.storage.empty_folders import remove_empty_tree
from pkray.storage.object_store import ObjectStore

MAIN = "main"
_PREFIX = "branch-"


@dataclass(frozen=True)
class Branch:
    """A branch.

    Args:
        create_time: epoch milliseconds.
        snapshot_id: its newest snapshot; None while it is empty.
    """

    name: str
    create_time: int
    snapshot_id: int | None


class BranchHistories:
    """Creates, lists, deletes and takes over ``branch/branch-<name>/{schema,snapshot,tag}``.

    A branch is there once it has a schema, which is what comes last when it is made and goes
    first when it is deleted. Users hold `pkray.table.maintenance.branches.Branches`, which stops
    services too.

    Args:
        store: the root of the table, or a branch of it.
        table: its name, for messages.
    """

    def __init__(self, store: ObjectStore, table: str) -> None:
        self._main, _ = main_and_history(store)
        self._table = table

    def names(self) -> list[str]:
        """List the names of the branches, in order."""
        folders = (path.rstrip("/").rsplit("/", 1)[-1] for path in self._folders())
        return sorted(
            folder.removeprefix(_PREFIX)
            for folder in folders
            if folder.startswith(_PREFIX) and self.exists(folder.removeprefix(_PREFIX))
        )

    def all(self) -> list[Branch]:
        """List every branch, by name."""
        found = []
        for name in self.names():
            history = self._history(name)
            made = [file.modified_millis for file in history.list(paths.SCHEMA_DIR)]
            latest = SnapshotStore(history).latest_id()
            found.append(Branch(name, min(made, default=0), latest))
        return found

    def exists(self, name: str) -> bool:
        return fault(name) is None and SchemaStore(self._history(name), self._table).exists()

    def require(self, name: str) -> None:
        """Raise a `BranchNotFoundError` where there is no such branch."""
        if not self.exists(name):
            names = self.names()
            there = f"its branches are {', '.join(names)}" if names else "it has no branches"
            raise errors.BranchNotFoundError(
                f"branch {name!r} of {self._table} does not exist: {there}", branch=name
            )

    def create(self, name: str, tag: str | None = None) -> None:
        """Make a branch that begins with the snapshot of a tag, or one without rows.

        Without a tag it has the table's newest schema and no snapshot, as in Paimon.

        Raises:
            TableError: a name that no branch can have.
            BranchExistsError: it is there.
            TagNotFoundError: there is no such tag.
        """
        check_name(name)
        tagged = TagStore(self._main).get(tag) if tag is not None else None
        history = self._history(name)
        ids = SchemaStore(self._main, self._table).ids()
        if tagged is not None:
            ids = [number for number in ids if number <= tagged.snapshot.schema_id]
        there = SchemaStore(history, self._table).ids()
        if there and not self._was_cut_short(history, tagged, there, ids):
            raise errors.BranchExistsError(
                f"branch {name!r} of {self._table} exists already: delete it first, or choose "
                "another name",
                branch=name,
            )
        if not there:
            history.delete([file.path for file in history.list()])
        if tagged is not None:
            history.write(paths.tag(tagged.name), encode_tag(tagged))
            history.create(paths.snapshot(tagged.snapshot.id), encode(tagged.snapshot))
        for number in reversed(ids):
            history.create(paths.schema(number), self._main.read(paths.schema(number)))

    def delete(self, name: str) -> None:
        """Remove a branch, and the files that only it named.

        Raises:
            BranchNotFoundError: there is none.
        """
        self.require(name)
        history = self._history(name)
        schema = SchemaStore(history, self._table).latest()
        snapshots = list(SnapshotStore(history).all())
        changelogs = list(ChangelogStore(history).all())
        tagged = list(TagStore(history).all().values())
        history.delete([file.path for file in history.list(paths.SCHEMA_DIR)])
        history.delete([file.path for file in history.list()])
        remove_empty_tree(history)  # other engines take a folder for a branch
        with contextlib.suppress(errors.StorageError):  # what stays is the orphan cleaner's
            delete_unreferenced(
                self._main, schema, [*snapshots, *changelogs], [*snapshots[:1], *tagged]
            )

    def fast_forward(self, name: str) -> Snapshot:
        """Make the table what a branch is: its snapshots, schemas and tags take the place of the
        table's own from where the branch began. What the table committed since is gone.

        Killed at any point it leaves the table at one of its own snapshots or one of the
        branch's, and doing it again ends it. Where the branch has no snapshot of the table any
        more, as they have expired, the table keeps none of its own, which others would not follow.

        Returns:
            The table's newest snapshot from now on.

        Raises:
            BranchNotFoundError: there is none.
            TableError: the branch has no snapshots.
            CommitConflictError: the table was committed to meanwhile; do it again.
        """
        self.require(name)
        history = self._history(name)
        schema = SchemaStore(history, self._table).latest()
        branch, main = SnapshotStore(history), SnapshotStore(self._main)
        snapshots = list(branch.all())
        if not snapshots:
            raise errors.TableError(
                f"branch {name!r} of {self._table} has no snapshots: commit to it before the "
                "table is made what it is",
                branch=name,
            )
        first, own = snapshots[0], TagStore(history).all()
        shared = since = first.id - 1
        for snapshot in snapshots:
            if not main.holds(snapshot):
                break
            shared = since = snapshot.id
        tagged = (*own.values(), *TagStore(self._main).all().values())
        is_tagged = any(each.is_same(first) for each in tagged)
        continues = shared >= first.id or (is_tagged and not _follows(main, first))
        if not continues:
            # Where the branch began has expired, or the table was rolled back below it and went
            # on: what the table has before is its own, but for what the branch's tags follow.
            since = min((tag.id for tag in own.values() if tag.id < first.id), default=since)
        coming = [snapshot for snapshot in snapshots if snapshot.id > shared]
        tags = self._remove_tags(own, since)
        changelogs = ChangelogStore(self._main).remove_from(shared + 1 if continues else 0)
        removed = self._make_room(main, shared if continues else 0, history, coming)
        for snapshot in coming:
            if not main.publish(snapshot) and not main.holds(snapshot):
                raise errors.CommitConflictError(
                    f"table {self._table} was committed to while branch {name!r} took its place, "
                    f"and has another snapshot {snapshot.id}: do it again",
                    branch=name,
                    snapshot_id=snapshot.id,
                )
        for tag in TagStore(history).tags():
            self._main.write(paths.tag(tag.name), encode_tag(tag))
        main.write_hints()
        with contextlib.suppress(errors.StorageError):  # what stays is the orphan cleaner's
            # What the oldest has was added by those that have expired, too.
            delete_unreferenced(self._main, schema, [*removed, *changelogs], [*removed[-1:], *tags])
        return snapshots[-1]

    def main_schemas(self) -> dict[int, bytes]:
        """Read the table's own schema files, by id; they may change where a branch takes its
        place."""
        ids = SchemaStore(self._main, self._table).ids()
        return {number: self._main.read(paths.schema(number)) for number in ids}

    def _make_room(
        self, main: SnapshotStore, shared: int, history: ObjectStore, coming: list[Snapshot]
    ) -> list[Snapshot]:
        """Remove the table's snapshots above the last shared one, and take over the schemas.

        At no time is there no snapshot: where none is shared, the oldest of the table's stays
        until the first of the branch's is there.
        """
        ids = main.ids()
        if not ids or shared in ids:
            removed = main.remove_from(shared + 1)
            self._take_schemas(history)
            return [*removed, *self._remove_strays(main)]
        oldest, first = ids[0], coming[0]
        removed = [*main.remove_from(oldest + 1), main.read(oldest, fresh=True)]
        self._take_schemas(history)
        self._main.delete(paths.LATEST_HINT)
        self._main.write(paths.snapshot(first.id), encode(first))
        if first.id != oldest:
            main.delete(oldest)
        return removed

    def _remove_strays(self, main: SnapshotStore) -> list[Snapshot]:
        """Remove snapshots that are not followed by the next: a killed fast-forward left them."""
        ids = main.ids()
        gap = max((number for number in ids if number - 1 not in ids), default=0)
        strays = [main.read(number, fresh=True) for number in reversed(ids) if number < gap]
        for snapshot in strays:
            main.delete(snapshot.id)
        return strays

    def _take_schemas(self, history: ObjectStore) -> None:
        wanted = SchemaStore(history, self._table).ids()
        for number in reversed(SchemaStore(self._main, self._table).ids()):
            if number > wanted[-1]:
                self._main.delete(paths.schema(number))
        there = self.main_schemas()
        for number in wanted:
            schema = history.read(paths.schema(number))
            if there.get(number) != schema:
                self._main.write(paths.schema(number), schema)

    def _remove_tags(self, own: Mapping[str, Snapshot], shared: int) -> list[Snapshot]:
        """Remove the table's tags above a snapshot, but those the branch has too."""
        removed = []
        tags = TagStore(self._main)
        for tag in tags.tags():
            if tag.snapshot.id > shared and not tag.snapshot.is_same(own.get(tag.name)):
                tags.delete(tag.name)
                removed.append(tag.snapshot)
        return removed

    def _was_cut_short(
        self, history: ObjectStore, tagged: Tag | None, there: list[int], wanted: list[int]
    ) -> bool:
        """Whether a branch is one that this very creation made, up to some point."""
        if tagged is None or there == wanted or there != wanted[-len(there) :]:
            return False
        snapshots = SnapshotStore(history)
        return snapshots.ids() == [tagged.snapshot.id] and snapshots.holds(tagged.snapshot)

    def _history(self, name: str) -> ObjectStore:
        return self._main.child(paths.branch(name))

    def _folders(self) -> list[str]:
        return self._main.list_dirs(paths.BRANCH_DIR)


def _follows(main: SnapshotStore, first: Snapshot) -> bool:
    """Whether the snapshot that has the id before another one was committed after it."""
    return any(
        each.time_millis > first.time_millis for each in main.range(first.id - 1, first.id - 1)
    )


def check_name(name: object) -> None:
    """Raise a `TableError` for what Paimon takes for no branch: blank, digits alone, ``main``."""
    text = name if isinstance(name, str) else ""
    if (why := fault(name, MOST_CHOSEN_BYTES)) is not None or "$" in text:
        reason = (
            f"{why or 'it holds a dollar sign'}; give one {ALLOWED}, without dollar signs, of at "
            f"most {MOST_CHOSEN_BYTES} bytes"
        )
    elif text == MAIN:
        reason = "main is the table itself"
    elif text.isdigit():
        reason = "give one that is no number"
    else:
        return
    raise errors.TableError(f"{name!r} is no name of a branch: {reason}", branch=name)
