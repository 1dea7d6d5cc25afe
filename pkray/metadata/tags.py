"""The tags of a table: snapshots kept under names."""

from collections.abc import Callable, Iterator

from pkray import errors
from pkray.arguments.file_names import check_chosen, fault
from pkray.clock import now_millis
from pkray.format import paths
from pkray.format.snapshot import Snapshot
from pkray.format.tag import Tag, decode, encode
from pkray.metadata.named_files import named_files
from pkray.metadata.snapshots import SnapshotStore
from pkray.storage.object_store import ObjectStore

_PREFIX = f"{paths.TAG_DIR}/tag-"


class TagStore:
    """Creates, reads and deletes ``tag/tag-<name>``.

    A tag's file holds its whole snapshot, so the tag outlives the snapshot's own file; whoever
    removes data files has to spare those of `all`.

    Args:
        clock: epoch milliseconds.
    """

    def __init__(
        self,
        store: ObjectStore,
        snapshots: SnapshotStore | None = None,
        clock: Callable[[], int] = now_millis,
    ) -> None:
        self._store = store
        self._snapshots = snapshots or SnapshotStore(store)
        self._clock = clock

    def all(self) -> dict[str, Snapshot]:
        """Map every tag's name to its snapshot."""
        return {tag.name: tag.snapshot for tag in self.tags()}

    def names(self) -> list[str]:
        """List the names of the tags, in order."""
        return sorted(name for name, _ in named_files(self._store, _PREFIX))

    def tags(self) -> Iterator[Tag]:
        """Yield every tag, in the order of their names."""
        for name in self.names():
            tag = self._read(name)
            if tag is not None:
                yield tag

    def find(self, name: str) -> Tag | None:
        """Return the tag of that name, or None.

        Raises:
            CorruptFileError: its file is damaged.
        """
        return None if fault(name) else self._read(name)

    def _read(self, name: str) -> Tag | None:
        path = paths.tag(name)
        try:
            return decode(self._store.read(path), name, self._store.location(path))
        except errors.MissingFileError:
            return None

    def get(self, name: str) -> Tag:
        """Return the tag of that name.

        Raises:
            TagNotFoundError: there is none.
        """
        tag = self.find(name)
        if tag is None:
            names = self.names()
            there = f"its tags are {', '.join(names)}" if names else "it has no tags"
            raise errors.TagNotFoundError(
                f"tag {name!r} of {self._store.url!r} does not exist: {there}", tag=name
            )
        return tag

    def create(
        self,
        name: str,
        snapshot: Snapshot,
        time_retained: int | None = None,
        *,
        if_not_exists: bool = False,
        undo: Callable[[str], None] | None = None,
    ) -> Tag:
        """Keep a snapshot under a name.

        Args:
            time_retained: milliseconds; default for ever.
            undo: removes the tag of this name again if its snapshot is gone; default the tag's
                file alone. Expiry that saw the tag left it the files of the snapshot.

        Raises:
            TableError: a name that no tag can have.
            TagExistsError: the name is taken.
            SnapshotNotFoundError: the snapshot expired meanwhile.
        """
        check_name(name)
        made = None if time_retained is None else self._clock()
        tag = Tag(name, snapshot, made, time_retained)
        path = paths.tag(name)
        if not self._store.create(path, encode(tag)):
            if if_not_exists:
                return self.get(name)
            raise errors.TagExistsError(
                f"tag {name!r} of {self._store.url!r} exists already: delete it first, or choose "
                "another name",
                tag=name,
            )
        self._keep_whole(tag, undo or self.delete)
        return tag

    def delete(self, name: str) -> None:
        """Remove a tag's file; nothing happens where there is none. Data files stay."""
        self._store.delete(paths.tag(name))

    def expired(self) -> list[Tag]:
        """List the tags whose time of retention is over."""
        now = self._clock()
        return [tag for tag in self.tags() if tag.has_expired(now)]

    def _keep_whole(self, tag: Tag, undo: Callable[[str], None]) -> None:
        """Delete a new tag again if its snapshot is gone by now. Expiry removes a snapshot's file,
        then looks for tags, then removes data files: it sees tags made while the snapshot was
        there."""
        try:
            there = self._snapshots.read(tag.snapshot.id, fresh=True)
        except errors.SnapshotNotFoundError:
            undo(tag.name)
            raise
        if there != tag.snapshot:
            undo(tag.name)
            raise errors.SnapshotNotFoundError(
                f"snapshot {tag.snapshot.id} of {self._store.url!r} was rolled back while tag "
                f"{tag.name!r} was made; tag another one",
                snapshot_id=tag.snapshot.id,
                tag=tag.name,
            )


def check_name(name: object) -> None:
    """Raise a `TableError` for a name that no tag can have."""
    check_chosen(name, "tag", errors.TableError)
