"""Brings a backup back: tables with identities of their own, queries that stand still."""

import uuid
from collections.abc import Callable, Sequence

import msgspec
from msgspec import structs

from pkray.backup.stored import BackupStore, StoredBackup
from pkray.backup.unit import QUERY, TABLE, Copied, Unit, UnitFiles, copy
from pkray.backup.verify import damaged, missing
from pkray.checksums import check_json, seal_json
from pkray.errors import BackupError, CorruptFileError, TableNotFoundError
from pkray.format import paths
from pkray.metadata.schemas import read_identity
from pkray.metadata.snapshots import SnapshotStore
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.log.log import Checkpoint
from pkray.relational.continuous.queries.definitions.definition import Definition
from pkray.relational.continuous.queries.definitions.query_store import QueryStore
from pkray.relational.continuous.queries.incarnations.savepoints import sent_back
from pkray.relational.continuous.queries.query import find_query
from pkray.storage import object_store
from pkray.storage.object_store import ObjectStore
from pkray.table.databases import Databases
from pkray.table.table_name import TableName
from pkray.table.views import Views

_RESTORED = "pkrayRestored"
"""A field of a table's first schema: an id that no other copy has."""
_CONSUMERS_LEFT = tuple(f"{paths.CONSUMER_DIR}/consumer-{each}" for each in ("query-", "backup-"))
"""Of queries as they ran: restored ones begin with savepoints, which have their own."""


class Restoration:
    """Restores one backup.

    Args:
        catalog: of the warehouse into which it is restored.
        store: of backups.
        progress: called with the bytes that were copied, and how many there are.
    """

    def __init__(
        self, catalog: Catalog, store: BackupStore, progress: Callable[[int, int], None]
    ) -> None:
        self._catalog = catalog
        self._store = store
        self._queries = QueryStore(catalog.store)
        self._databases = Databases(catalog.store, catalog.warehouse)
        self._views = Views(catalog.store, self._databases)
        self._progress = progress
        self._done = 0
        self._total = 0

    def restore(
        self, name: str, tables: Sequence[str] | None, *, replace: bool, deliver: bool
    ) -> StoredBackup:
        """Restore a backup; return it with what was restored of it.

        Args:
            tables: alone, with the queries that use no others; None: all.
            replace: what lies where it is restored to goes before.
            deliver: whether queries go on to tell the outside of failures, as the copied ones do.

        Raises:
            BackupNotFoundError: there is none of this name.
            BackupError: it is damaged or incomplete, or something lies where it is restored to.
            CorruptFileError: a file is not as it was copied; what was not restored by then is not
                there, and its table neither.
            TableInUseError: a query that is not in the backup uses a table that is to go.
        """
        backup = self._store.read(name)
        files = [(unit, self._checked(name, unit)) for unit in backup.units]
        chosen = [(unit, own) for unit, own in files if _is_chosen(unit, own, tables)]
        self._check_names(backup, tables)
        if replace:
            self._check_content(backup, chosen)
            self._make_room(chosen)
        else:
            self._check_room(backup, chosen, tables)
        self._total = sum(unit.bytes for unit, _ in chosen)
        identities = {
            unit.name: (unit.identity, self._restore_table(unit, own))
            for unit, own in chosen
            if unit.kind == TABLE
        }
        if tables is None:
            for each in backup.databases:
                self._catalog.create_database(each, if_not_exists=True)
            for view, query in backup.views.items():
                self._views.replace(view, query)
        for unit, own in chosen:
            if unit.kind == QUERY:
                self._restore_query(backup, unit, own, identities, deliver=deliver)
        return structs.replace(backup, units=tuple(unit for unit, _ in chosen))

    def _checked(self, name: str, unit: Unit) -> UnitFiles:
        """Read what a unit has, and look whether it is there."""
        files = self._store.files(name, unit)
        lost = missing(self._store.store, unit, files)
        if lost:
            raise BackupError(
                f"backup {name!r} is incomplete: of {len(lost)} files of {unit.name} such as "
                f"{lost[0].path} {lost[0].what}; verify it, and restore another one",
                backup=name,
            )
        return files

    def _check_content(
        self, backup: StoredBackup, chosen: Sequence[tuple[Unit, UnitFiles]]
    ) -> None:
        """Read all that is to take the place of something, before that goes."""
        for unit, files in chosen:
            wrong = damaged(self._store.store, unit, files)
            if wrong:
                raise BackupError(
                    f"backup {backup.name!r} is damaged: of {len(wrong)} files of {unit.name} such "
                    f"as {wrong[0].path} {wrong[0].what}; restore another one",
                    backup=backup.name,
                )

    def _check_names(self, backup: StoredBackup, tables: Sequence[str] | None) -> None:
        known = {unit.name for unit in backup.of_kind(TABLE)}
        for each in known | set(tables or ()):
            TableName.parse(each).require_itself()
        for each in tables or ():
            if each not in known:
                names = ", ".join(sorted(known))
                raise TableNotFoundError(
                    f"backup {backup.name!r} has no table {each}: it has {names}", table=each
                )

    def _check_room(
        self,
        backup: StoredBackup,
        chosen: Sequence[tuple[Unit, UnitFiles]],
        tables: Sequence[str] | None,
    ) -> None:
        there = [
            f"{unit.kind} {unit.name}"
            for unit, _ in chosen
            if (
                self._queries.find(unit.name) is not None
                if unit.kind == QUERY
                else next(self._folder(unit.name).list("", hidden=True), None) is not None
            )
        ]
        if tables is None:
            known = ((name, self._views.find(name)) for name in backup.views)
            there += [f"view {name}" for name, view in known if view is not None]
        if there:
            raise BackupError(
                f"backup {backup.name!r} is not restored into {self._catalog.warehouse}: "
                f"there already: {', '.join(there[:5])}; restore into an empty warehouse, or give "
                "replace=True, by which they go",
                backup=backup.name,
                arguments=("replace=True",),
            )

    def _make_room(self, chosen: Sequence[tuple[Unit, UnitFiles]]) -> None:
        """Drop the queries and the tables in whose place others come."""
        for unit, _ in chosen:
            if unit.kind == QUERY and self._queries.find(unit.name) is not None:
                find_query(self._catalog, unit.name).drop()
        for unit, _ in chosen:
            if unit.kind == TABLE:
                self._catalog.drop_table(unit.name, if_exists=True)
                folder = self._folder(unit.name)
                folder.delete([each.path for each in folder.list("", hidden=True)])

    def _folder(self, table: str) -> ObjectStore:
        return self._databases.folder_of(table)

    def _restore_table(self, unit: Unit, files: UnitFiles) -> str:
        """Restore a table; return its identity. Its schemas come last: with them it is there."""
        folder = self._folder(unit.name)
        self._bring(unit, files, folder)
        small = {
            path: data for path, data in files.small.items() if not path.startswith(_CONSUMERS_LEFT)
        }
        schemas = sorted(filter(_is_schema, small), key=_number_of, reverse=True)
        if not schemas:
            raise CorruptFileError(
                f"the backup of table {unit.name} has no schema", table=unit.name
            )
        others = small.keys() - set(schemas)
        object_store.each(folder, lambda path: folder.write(path, small[path]), others)
        SnapshotStore(folder).write_hints()
        for path in schemas[:-1]:
            folder.write(path, small[path])
        first = schemas[-1]
        if not folder.create(first, _with_identity(folder.location(first), small[first])):
            raise BackupError(
                f"table {unit.name} was created while it was restored: drop it, and restore again",
                table=unit.name,
            )
        return str(read_identity(folder))

    def _bring(self, unit: Unit, files: UnitFiles, target: ObjectStore) -> None:
        """Copy the files of a unit that are never rewritten, and check what is copied."""
        source = self._store.store.child(unit.folder)

        def bring(entry: tuple[str, Copied]) -> None:
            path, known = entry
            found = copy(source, path, target, path)
            if found != known:
                target.delete(path)
                raise CorruptFileError(
                    f"{source.location(path)} is not as it was copied: verify the backup, and "
                    "restore another one",
                    path=path,
                )
            self._done += found.size
            self._progress(self._done, self._total)

        remote = source if source.local_path("") is None else target
        for _ in object_store.ahead(remote, bring, files.shared.items()):
            pass

    def _restore_query(
        self,
        backup: StoredBackup,
        unit: Unit,
        files: UnitFiles,
        identities: dict[str, tuple[str, str]],
        *,
        deliver: bool,
    ) -> None:
        """Restore a query that stands still: it begins with the savepoint of the backup."""
        copied = msgspec.json.decode(files.small["definition"], type=Definition)
        results = [self._catalog.load_table(each) for each in copied.tables]
        back = sent_back(copied, unit.savepoint, results)
        options = dict(back.options)
        if not deliver:
            options.pop("failure_url", None)
        source = f"{backup.warehouse}@{copied.incarnation}"
        back = structs.replace(back, options=options, copy_of=source)
        folder = self._queries.folder(back)
        self._bring(unit, files, folder)
        for path, data in files.small.items():
            if path.startswith("savepoints/"):
                folder.write(path, _with_marks(data, identities))
            elif path != "definition":
                folder.write(path, data)
        made = self._queries.create(back)
        if made is None:
            raise BackupError(
                f"query {unit.name} was created while it was restored: drop it, and restore again",
                query=unit.name,
            )
        self._queries.want(made, running=False)


def _is_chosen(unit: Unit, files: UnitFiles, tables: Sequence[str] | None) -> bool:
    if tables is None:
        return True
    if unit.kind == TABLE:
        return unit.name in tables
    definition = msgspec.json.decode(files.small["definition"], type=Definition)
    read = {node["table"] for node in definition.document["nodes"] if "table" in node}
    return read | set(definition.tables) <= set(tables)


def _is_schema(path: str) -> bool:
    return path.startswith(f"{paths.SCHEMA_DIR}/schema-")


def _number_of(path: str) -> int:
    return int(path.rpartition("-")[2])


def _with_identity(location: str, data: bytes) -> bytes:
    """Make a first schema that no other table has."""
    try:
        is_sealed = check_json(data)
        fields = msgspec.json.decode(data)
    except ValueError as error:
        raise CorruptFileError(f"{location} is damaged in the backup: {error}") from error
    fields = {key: value for key, value in fields.items() if not key.startswith("pkray.")}
    encoded = msgspec.json.format(msgspec.json.encode(fields | {_RESTORED: uuid.uuid4().hex}))
    return seal_json(encoded) if is_sealed else encoded


def _with_marks(data: bytes, identities: dict[str, tuple[str, str]]) -> bytes:
    """Have a checkpoint name restored tables where it names those that were copied."""
    check_json(data)
    saved = msgspec.json.decode(data, type=Checkpoint)
    marks = dict(saved.marks)
    for source, mark in marks.items():
        copied, restored = identities.get(source.partition("$")[0], ("", ""))
        if mark == copied:  # tables made alike in one millisecond have one identity
            marks[source] = restored
    return seal_json(msgspec.json.encode(structs.replace(saved, marks=marks)))
