"""The branches of a table."""

from collections.abc import Callable

import pyarrow as pa

from pkray.arguments.facade import Name, checked_class
from pkray.expiration import branches
from pkray.format.snapshot import Snapshot
from pkray.schema.table_schema import TableSchema
from pkray.storage.location import TableLocation
from pkray.storage.object_store import ObjectStore
from pkray.system import history
from pkray.system.source import Source


@checked_class
class Branches:
    """Histories of their own that begin with the table's; ``table.branches``.

    A branch is read and written as a table: ``table.branch(name)``, or
    ``catalog.load_table("db.t$branch_name")``. Its data files lie among the table's.

    Args:
        location: of the table, or of one of its branches.
        stop: stops the service of a branch, or of the table.
        replaced: told when other schemas are in the place of the table's.
    """

    def __init__(
        self,
        location: TableLocation,
        store: ObjectStore,
        schema: TableSchema,
        stop: Callable[[TableLocation], None],
        replaced: Callable[[], None],
    ) -> None:
        self._location = location
        self._store = store
        self._schema = schema
        self._stop = stop
        self._replaced = replaced
        self._branches = branches.BranchHistories(store, location.on_branch(None).name)

    def __repr__(self) -> str:
        return f"Branches({self._location.name!r})"

    def locate(self, name: Name) -> TableLocation:
        """Locate a branch; ``main`` is the table itself.

        Raises:
            BranchNotFoundError: there is none.
        """
        if name == branches.MAIN:
            return self._location.on_branch(None)
        self._branches.require(name)
        return self._location.on_branch(name)

    def create(self, name: Name, tag: Name | None = None) -> None:
        """Make a branch.

        Args:
            tag: what it begins with. Without one it has the table's columns and no rows, as in
                Paimon.

        Raises:
            BranchExistsError: it is there.
            TagNotFoundError: the table has no such tag.
            TableError: a name that no branch can have.
        """
        self._branches.create(name, tag)

    def delete(self, name: Name) -> None:
        """Remove a branch, its service and the files that only it named.

        Raises:
            BranchNotFoundError: there is none.
        """
        self._branches.require(name)
        self._stop(self._location.on_branch(name))
        self._branches.delete(name)

    def fast_forward(self, name: Name) -> Snapshot:
        """Make the table what a branch is, from where the branch began; the branch stays.

        What was committed to the table since is gone, as in Paimon. Where the branch has other
        columns or options the table's service is stopped: what is not committed is dropped, and
        writers of this runtime end. Other processes notice: writers, and lookups of tables loaded
        before, are refused by SchemaChangedError there. Tables are to be loaded again.

        Returns:
            The table's newest snapshot from now on.

        Raises:
            BranchNotFoundError: there is none.
            TableError: the branch has no snapshots.
            CommitConflictError: the table was committed to meanwhile; do it again.
        """
        before = self._branches.main_schemas()
        try:
            return self._branches.fast_forward(name)
        finally:
            if self._branches.main_schemas() != before:
                self._stop(self._location.on_branch(None))
                self._replaced()

    def list(self) -> pa.Table:
        """List the branches, a row each, by name: ``branch_name``, ``create_time``."""
        return history.branches(Source(self._location, self._store, self._schema))
