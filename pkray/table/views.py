"""Views: queries with names, stored beside the tables of their database."""

import msgspec

from pkray.errors import CorruptFileError, MissingFileError, TableError, TableExistsError
from pkray.storage.object_store import ObjectStore
from pkray.table.databases import Databases
from pkray.table.table_name import TableName

_FOLDER = ".views/"
"""Hidden: what lists tables does not see it."""
_SUFFIX = ".json"


class StoredView(msgspec.Struct, frozen=True):
    """A view as its file says it.

    Attributes:
        query: the text.
        dialect: in which it is written.
        database: where names without one are looked up.
    """

    query: str
    dialect: str
    database: str


class Views:
    """The views of a warehouse.

    Args:
        store: the warehouse's root.
    """

    def __init__(self, store: ObjectStore, databases: Databases) -> None:
        self._store = store
        self._databases = databases

    def find(self, name: str) -> StoredView | None:
        """Find a view by ``database.view``; None where there is none."""
        named = TableName.parse(name)
        if named.branch or named.system:
            return None
        path = self._path(name)
        try:
            return msgspec.json.decode(self._store.read(path), type=StoredView)
        except MissingFileError:
            return None
        except msgspec.DecodeError as error:
            raise CorruptFileError(
                f"view {name} is damaged: {path} holds {error}; create it again", path=path
            ) from error

    def create(self, name: str, view: StoredView) -> None:
        """Store a view.

        Raises:
            TableExistsError: there is one of this name.
        """
        if not self._store.create(self._path(name), msgspec.json.encode(view)):
            raise TableExistsError(
                f"view {name} exists already: drop it first, or create or replace it", table=name
            )

    def replace(self, name: str, view: StoredView) -> None:
        """Create it, or put another query in its place."""
        self._store.write(self._path(name), msgspec.json.encode(view))

    def drop(self, name: str) -> None:
        """Delete it; nothing where there is none."""
        self._store.delete([self._path(name)])

    def names(self, database: str | None = None) -> list[str]:
        """List ``database.view`` of every view, in order."""
        found = []
        for each in [database] if database else self._databases.names():
            folder = self._store.child(f"{self._databases.database_folder(each)}/{_FOLDER}")
            names = [status.path.removesuffix(_SUFFIX) for status in folder.list("")]
            found += [f"{each}.{name}" for name in names]
        return sorted(found)

    def _path(self, name: str) -> str:
        named = TableName.parse(name)
        if named.branch or named.system:
            raise TableError(f"a view cannot be called {name}: leave out the $", table=name)
        return f"{self._databases.database_folder(named.database)}/{_FOLDER}{named.table}{_SUFFIX}"
