"""Makes backups beside writers, expiry and compaction."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property

import msgspec

from pkray.backup.stored import VERSION, BackupStore, StoredBackup, check_name
from pkray.backup.table_files import shared_files, small_files
from pkray.backup.turns import Turn
from pkray.backup.unit import QUERY, TABLE, Copied, Unit, copy, write_list
from pkray.clock import now_millis
from pkray.errors import (
    BackupError,
    MissingFileError,
    PkrayError,
    QueryNotFoundError,
    TableNotFoundError,
)
from pkray.metadata.consumers import ConsumerStore
from pkray.metadata.schemas import read_identity
from pkray.metadata.snapshots import SnapshotStore
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.queries.definitions.definition import tables_read
from pkray.relational.continuous.queries.definitions.query_store import QueryStore
from pkray.relational.continuous.queries.query import Query, find_query
from pkray.storage.object_store import ObjectStore, ahead
from pkray.storage.secrets import shown_url
from pkray.table.views import StoredView

_TRIES = 10
"""Of a table whose files expire while they are copied; each copies only what is new."""

Progress = Callable[[int, int], None]
"""Called with the bytes that were looked at, and how many are known of."""


class Creation:
    """Makes one backup.

    Args:
        catalog: of the warehouse.
        store: of backups.
        progress: called as files are copied.
    """

    def __init__(self, catalog: Catalog, store: BackupStore, progress: Progress) -> None:
        self._catalog = catalog
        self._store = store
        self._queries = QueryStore(catalog.store)
        self._progress = progress
        self._done = 0
        self._total = 0
        self._units: list[Unit] = []

    def make(self, name: str, tables: Sequence[str] | None) -> StoredBackup:
        """Make a backup; what it holds back from expiring is let go in the end.

        Args:
            tables: to be copied, with the queries that use no others; None: all.

        Raises:
            OptionError: it cannot be called so.
            BackupExistsError: there is one of this name.
            BackupInUseError: another process changes the store.
            BackupError: files of a table are gone, or go faster than they are copied.
            TableNotFoundError: there is no such table.
        """
        check_name(name)
        if self._store.exists(name):
            raise self._store.exists_already(name)
        warehouse = shown_url(self._catalog.warehouse)
        chosen = self._chosen(tables)
        with Turn(self._store.store, f"backup {name!r} is made") as turn:
            self._let_go()  # what was held for one that was killed
            held = f"{self._holds}{turn.attempt}"
            made = now_millis()
            try:
                kept, left_out = self._savepoints(held, set(chosen), whole=tables is None)
                for each in chosen:
                    self._copy_table(name, each, held)
                for query in kept:
                    self._copy_query(name, query, held)
                turn.check()
                backup = StoredBackup(
                    VERSION,
                    name,
                    made,
                    warehouse,
                    tuple(self._catalog.list_databases()),
                    self._views() if tables is None else {},
                    tuple(self._units),
                    left_out,
                )
                self._store.create(backup)
            finally:
                self._let_go()
        return backup

    def _chosen(self, tables: Sequence[str] | None) -> list[str]:
        if tables is None:
            return self._catalog.list_tables()
        return [self._catalog.load_table(each).name for each in dict.fromkeys(tables)]

    def _views(self) -> dict[str, StoredView]:
        found = {name: self._catalog.find_view(name) for name in self._catalog.views()}
        return {name: view for name, view in found.items() if view is not None}

    def _savepoints(
        self, held: str, tables: set[str], *, whole: bool
    ) -> tuple[list[Query], dict[str, str]]:
        """Make a savepoint of each query; also say why one has none."""
        kept: list[Query] = []
        left_out: dict[str, str] = {}
        for definition in self._queries.all():
            name = definition.name
            used = {*definition.tables, *tables_read(definition)} - set(definition.streams)
            if not whole and not used <= tables:
                continue
            if definition.streams:
                left_out[name] = "it reads what a program hands it: begin it anew"
                continue
            try:
                query = find_query(self._catalog, name)
                query.savepoint(held)
                kept.append(query)
            except PkrayError as error:
                left_out[name] = str(error)
        return kept, left_out

    def _copy_table(self, backup: str, name: str, held: str) -> None:
        table = self._catalog.load_table(name).location.open()
        identity = read_identity(table)
        if identity is None:
            raise TableNotFoundError(f"table {name} was dropped while backup {backup!r} was made")
        consumers = ConsumerStore(table)
        consumers.record(held, max(1, SnapshotStore(table).earliest_id() or 1))
        failure: MissingFileError | None = None
        for _ in range(_TRIES):
            try:
                small = small_files(table)
                own = {path: data for path, data in small.items() if not path.endswith(f"-{held}")}
                shared = shared_files(own, table, name)
                self._copy(backup, Unit(TABLE, name, identity), table, own, shared)
                break
            except MissingFileError as error:
                failure = error
        else:
            raise BackupError(
                f"table {name} cannot be copied: {failure}; where that is so of the table itself, "
                "roll it back to a snapshot that is whole, else keep snapshots for longer",
                table=name,
            ) from failure
        if read_identity(table) != identity:
            raise BackupError(
                f"table {name} was dropped, and created anew, while backup {backup!r} was made: "
                "make it again",
                table=name,
            )
        consumers.delete(held)

    def _copy_query(self, backup: str, query: Query, held: str) -> None:
        definition = self._queries.read(query.name)
        folder, log = self._queries.folder(definition), self._queries.log(definition)
        saved = log.savepoints()
        if held not in saved:
            raise BackupError(
                f"query {query.name} was dropped, or begun anew, while backup {backup!r} was made: "
                "make it again",
                query=query.name,
            )
        needed = {path for each in saved.values() for path in log.files_of(each)}
        listed = {each.path: each.size for each in folder.list("state/")}
        missing = sorted(needed - listed.keys())
        if missing:
            raise BackupError(
                f"{len(missing)} files of query {query.name} are gone, {missing[0]} among them: "
                "delete the savepoints that name them",
                query=query.name,
            )
        schemas = [path for path in listed if "/schema/" in path]
        small = {path: folder.read(path) for path in schemas}
        small |= {f"savepoints/{each}": folder.read(f"savepoints/{each}") for each in saved}
        small["definition"] = msgspec.json.encode(definition)
        identity = definition.begun or definition.incarnation
        shared = {path: listed[path] for path in needed}
        self._copy(backup, Unit(QUERY, query.name, identity, savepoint=held), folder, small, shared)

    def _copy(
        self,
        backup: str,
        unit: Unit,
        source: ObjectStore,
        small: dict[str, bytes],
        shared: dict[str, int],
    ) -> None:
        """Copy what the store has not got of a unit's files, and write their list."""
        target = self._store.store.child(unit.folder)
        there = {each.path: each.size for each in target.list("")}
        candidates = {path for path, size in shared.items() if there.get(path) == size}
        known = self._known(unit, candidates)
        self._total += sum(shared.values())
        self._advance(sum(shared[path] for path in known))

        def bring(path: str) -> tuple[str, Copied]:
            made = copy(source, path, target, path)
            self._advance(made.size)
            return path, made

        left = sorted(shared.keys() - known.keys())
        remote = source if source.local_path("") is None else target
        copied = dict(ahead(remote, bring, left))
        files = {**known, **copied}
        number = f"{len(self._units)}.parquet"
        path = self._store.list_path(backup, number)
        digest = write_list(self._store.store, path, small, files)
        size = sum(map(len, small.values())) + sum(each.size for each in files.values())
        count = len(small) + len(files)
        self._units.append(
            msgspec.structs.replace(unit, list=number, digest=digest, files=count, bytes=size)
        )

    def _known(self, unit: Unit, candidates: Iterable[str]) -> dict[str, Copied]:
        """Find what earlier backups say of files that are in the store."""
        left, known = set(candidates), dict[str, Copied]()
        for name in reversed(self._store.names()):
            for each in self._store.read(name).units:
                if left and each.folder == unit.folder:
                    files = self._store.files(name, each).shared
                    known |= {path: files[path] for path in left & files.keys()}
                    left -= known.keys()
        return known

    def _advance(self, size: int) -> None:
        self._done += size
        self._progress(self._done, self._total)

    @cached_property
    def _holds(self) -> str:
        """Begin the names of consumers and savepoints that keep what is copied into the store."""
        return f"backup-{self._store.identity()}-"

    def _let_go(self) -> None:
        """Let expire what backups into this store kept: who has the turn makes the only one."""
        for name in self._catalog.list_tables():
            with suppress(TableNotFoundError):
                table = self._catalog.load_table(name)
                for each in table.consumers.list()["consumer_id"].to_pylist():
                    if each.startswith(self._holds):
                        table.consumers.delete(each)
        for definition in self._queries.all():
            with suppress(QueryNotFoundError):
                query = find_query(self._catalog, definition.name)
                for each in query.savepoints():
                    if each.startswith(self._holds):
                        query.delete_savepoint(each)
