"""The backups of a store, by name."""

import re
import uuid

import msgspec

from pkray import errors
from pkray.arguments.file_names import check_chosen, fault
from pkray.backup.unit import QUERY, TABLE, Unit, UnitFiles, read_list
from pkray.checksums import seal_json
from pkray.storage.object_store import ObjectStore
from pkray.storage.sealed import read_sealed
from pkray.table.views import StoredView

VERSION = 1
_FOLDER = "backups/"
_FILE = "backup.json"
_IDENTITY_FILE = "identity"
_IDENTITY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_STORE = re.compile(r"[0-9a-f]{8}")
_LIST = re.compile(r"[0-9]{1,9}\.parquet")


class StoredBackup(msgspec.Struct, frozen=True):
    """A backup as its file says it.

    Attributes:
        version: of the files' layout.
        name: of the backup.
        made: epoch milliseconds, when it was begun.
        warehouse: that was copied, without secrets.
        databases: their names.
        views: by ``database.view``.
        units: the tables and queries.
        left_out: why a query is not in it, by name.
    """

    version: int
    name: str
    made: int
    warehouse: str
    databases: tuple[str, ...]
    views: dict[str, StoredView]
    units: tuple[Unit, ...]
    left_out: dict[str, str] = {}

    def of_kind(self, kind: str) -> list[Unit]:
        """List the tables, or the queries."""
        return [each for each in self.units if each.kind == kind]


class BackupStore:
    """Reads, writes and lists the backups of a store."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    def identity(self) -> str:
        """Read what tells the store from others, 8 hexadecimal digits; made when first asked."""
        made = uuid.uuid4().hex[:8]
        if self.store.create(_IDENTITY_FILE, made.encode()):
            return made
        found = self.store.read(_IDENTITY_FILE).decode("ascii", "replace")
        if not _STORE.fullmatch(found):
            raise errors.CorruptFileError(
                f"{self.store.location(_IDENTITY_FILE)} is damaged: it holds {found[:20]!r}; "
                "delete it, and make the backup again",
                path=_IDENTITY_FILE,
            )
        return found

    def names(self) -> list[str]:
        """List the names of the backups that are whole, in the order in which they were made."""
        folders = (path.rstrip("/") for path in self.store.list_dirs(_FOLDER))
        names = (path.rpartition("/")[2] for path in folders)
        found = [self.read(each) for each in names if self.exists(each)]
        return [each.name for each in sorted(found, key=lambda each: (each.made, each.name))]

    def exists(self, name: str) -> bool:
        """Whether there is a whole backup of this name."""
        return self.store.exists(self._path(name, _FILE))

    def read(self, name: str) -> StoredBackup:
        """Read a backup.

        Raises:
            BackupNotFoundError: there is none of this name.
            CorruptFileError: its file is damaged.
            UnsupportedError: a newer pkray made it.
        """
        path = self._path(name, _FILE)
        try:
            found = read_sealed(self.store, path, StoredBackup)
        except errors.MissingFileError:
            known = ", ".join(self.names()) or "none"
            raise errors.BackupNotFoundError(
                f"{self.store.url} has no backup {name!r}: there is {known}", backup=name
            ) from None
        if found.version > VERSION:
            raise errors.UnsupportedError(
                f"backup {name!r} has layout {found.version}, this pkray knows {VERSION}: use a "
                "newer pkray",
                backup=name,
            )
        wrong = _fault(found)
        if found.name != name or wrong:
            raise errors.CorruptFileError(
                f"{self.store.location(path)} is damaged: {wrong or f'it is of {found.name!r}'}",
                path=path,
            )
        return found

    def create(self, backup: StoredBackup) -> None:
        """Publish a backup whose files are all there.

        Raises:
            BackupExistsError: there is one of its name.
        """
        data = seal_json(msgspec.json.encode(backup))
        if not self.store.create(self._path(backup.name, _FILE), data):
            raise self.exists_already(backup.name)

    def exists_already(self, name: str) -> errors.BackupExistsError:
        """Make the error of a name that is taken."""
        return errors.BackupExistsError(
            f"{self.store.url} has a backup {name!r} already: choose another name, or delete it",
            backup=name,
        )

    def list_path(self, name: str, unit: str) -> str:
        """Name the file that lists a unit's files."""
        return self._path(name, unit)

    def files(self, name: str, unit: Unit) -> UnitFiles:
        """Read which files a unit has.

        Raises:
            BackupError: nothing says so any more.
            CorruptFileError: what says so is damaged.
        """
        try:
            return read_list(self.store, self._path(name, unit.list), unit.digest)
        except errors.MissingFileError as error:
            raise errors.BackupError(
                f"backup {name!r} is incomplete: {error.path} is gone, which lists the files of "
                f"{unit.kind} {unit.name}; use another backup",
                backup=name,
            ) from error

    def remove(self, name: str) -> None:
        """Delete a backup's own files; ``backup.json`` first, so that it is never half there."""
        self.store.delete(self._path(name, _FILE))
        folder = self._path(name, "")
        self.store.delete([each.path for each in self.store.list(folder)])

    @staticmethod
    def _path(name: str, file: str) -> str:
        return f"{_FOLDER}{name}/{file}"


def check_name(name: str) -> None:
    """Check that a backup can be called so.

    Raises:
        OptionError: it cannot.
    """
    check_chosen(name, "backup", errors.OptionError)
    wrong = fault(name, 80)
    if wrong is not None or name.startswith("."):
        raise errors.OptionError(f"a backup cannot be called {name!r}: {wrong or 'it is hidden'}")


def _fault(backup: StoredBackup) -> str | None:
    for unit in backup.units:
        named = unit.kind in (TABLE, QUERY) and _IDENTITY.fullmatch(unit.identity)
        if not named or not _LIST.fullmatch(unit.list) or fault(unit.name, 400):
            return f"{unit.kind} {unit.name!r} has files in {unit.folder!r}, {unit.list!r}"
    return None
