"""The committers of a table's commit users."""

from collections import OrderedDict
from collections.abc import Callable

from pkray.commit.committer import Committer
from pkray.commit.writer_fences import WriterFences
from pkray.metadata.schemas import SchemaStore, TableIdentity
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema.table_schema import TableSchema
from pkray.storage.location import TableLocation

MAX_KEPT = 64
"""Commit users that are known without reading snapshots; each takes some 300 bytes a data file."""


class Committers:
    """Makes a committer for each commit user, and keeps those that were last used.

    All of them share the snapshots they have read. Not thread-safe.

    Args:
        location: of the table that is committed to.
        clock: epoch milliseconds.
    """

    def __init__(self, location: TableLocation, clock: Callable[[], int]) -> None:
        self._location = location
        self._clock = clock
        self._store = location.open()
        self._schemas = SchemaStore(self._store, location.name)
        self._schema: TableSchema | None = None
        self._snapshots = SnapshotStore(self._store)
        self._identity = TableIdentity(self._store, location.name, location.identity)
        self._kept: OrderedDict[str, Committer] = OrderedDict()

    @property
    def fences(self) -> WriterFences:
        """The record of which writers of the table are the newest."""
        return WriterFences(self._store, self._identity)

    @property
    def schemas(self) -> str:
        """List the schemas there were when a committer last looked, as of `SchemaStore.listing`."""
        return self._schemas.listing

    def schema(self) -> TableSchema:
        """Return the newest schema, as a committer last saw it."""
        return self._schema or self._newest_schema()

    def _newest_schema(self) -> TableSchema:
        self._schema = self._schemas.newest()
        return self._schema

    @property
    def warehouse(self) -> str:
        """Give the URL of the table's warehouse."""
        return self._location.warehouse

    @property
    def table(self) -> str:
        """Name the table."""
        return self._location.name

    def __len__(self) -> int:
        return len(self._kept)

    def for_user(self, user: str, *, ignore_empty: bool = False) -> Committer:
        """Find the user's committer.

        Args:
            ignore_empty: a commit without changes makes no snapshot; of a committer that is kept,
                what it was made with counts.
        """
        if user not in self._kept:
            self._kept[user] = self._new(user, ignore_empty)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(user)
        return self._kept[user]

    def _new(self, user: str, ignore_empty: bool) -> Committer:
        return Committer(
            self._store,
            self._newest_schema,
            user,
            clock=self._clock,
            ignore_empty=ignore_empty,
            identity=self._identity,
            snapshots=self._snapshots,
        )
