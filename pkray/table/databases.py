"""The databases of a warehouse."""

import shutil

from pkray.errors import DatabaseExistsError, DatabaseNotFoundError
from pkray.storage.object_store import ObjectStore
from pkray.storage.warehouse_mark import DATABASE_SUFFIX, check_empty
from pkray.table.table_name import checked_database

_SUFFIX = DATABASE_SUFFIX
_MARK = ".database"
"""Keeps a database without tables in object stores, which have no folders."""


class Databases:
    """Folders of a warehouse, in which tables are.

    Args:
        store: the warehouse's root.
        warehouse: its path or URL, for people.
    """

    def __init__(self, store: ObjectStore, warehouse: str) -> None:
        self._store = store
        self._warehouse = warehouse

    def names(self) -> list[str]:
        """List the databases, in order.

        Raises:
            StorageError: nothing was listed, and something is there.
        """
        folders = [_last_part(each) for each in self._store.list_dirs("")]
        if not folders:
            check_empty(self._store)
        return sorted(name.removesuffix(_SUFFIX) for name in folders if name.endswith(_SUFFIX))

    def exist(self, name: str) -> bool:
        """Whether there is one of this name."""
        return checked_database(name) in self.names()

    def require(self, name: str) -> None:
        """Check that there is one of this name.

        Raises:
            DatabaseNotFoundError: there is none of this name.
        """
        if not self.exist(name):
            raise DatabaseNotFoundError(
                f"database {name} does not exist in {self._warehouse}: its databases are "
                f"{', '.join(self.names()) or 'none'}",
                database=name,
            )

    def create(self, name: str, *, if_not_exists: bool = False) -> None:
        """Create a database.

        Raises:
            DatabaseExistsError: it is there and ``if_not_exists`` is false.
        """
        if not self.exist(name):
            self._store.create(f"{name}{_SUFFIX}/{_MARK}", b"")
        elif not if_not_exists:
            raise DatabaseExistsError(
                f"database {name} exists already in {self._warehouse}: use it, or create it only "
                "if it does not exist",
                database=name,
            )

    def drop(self, name: str) -> None:
        """Delete a database and whatever its folder holds."""
        folder = self._store.child(f"{name}{_SUFFIX}")
        folder.delete([status.path for status in folder.list("", hidden=True)])
        remove_folders(folder)

    def table_names(self, name: str) -> list[str]:
        """List ``database.table`` of each folder in a database that may be a table's."""
        folders = self._store.list_dirs(f"{name}{_SUFFIX}/")
        return [f"{name}.{_last_part(folder)}" for folder in folders]

    def folder_of(self, name: str) -> ObjectStore:
        """Open the files of ``database.table``, where what is deleted lies in the warehouse."""
        return self._store.child(self.table_folder(name))

    @classmethod
    def table_folder(cls, name: str) -> str:
        """Say where in the warehouse ``database.table`` is."""
        database, _, table = name.partition(".")
        return f"{cls.database_folder(database)}/{table}"

    @staticmethod
    def database_folder(name: str) -> str:
        """Say where in the warehouse a database is."""
        return f"{name}{_SUFFIX}"


def remove_folders(store: ObjectStore) -> None:
    """Remove the folders that a disk keeps although they have no files any more."""
    folder = store.local_path("")
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _last_part(folder: str) -> str:
    return folder.rstrip("/").rsplit("/", 1)[-1]
