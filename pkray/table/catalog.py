"""A warehouse: databases of tables under one folder."""

import difflib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

from pkray import errors
from pkray.arguments.facade import ColumnNames, Comment, Name, NameOfTable, Options, checked_class
from pkray.clock import now_millis
from pkray.closing import Closeable
from pkray.expiration.branches import BranchHistories
from pkray.format import paths
from pkray.format.partition import PartitionSpec
from pkray.metadata.named_files import recall
from pkray.metadata.schemas import SchemaStore, identified, identity_of, read_identity
from pkray.options import as_options
from pkray.schema.table_schema import Columns, TableSchema
from pkray.service.runtime import Runtime
from pkray.storage.location import TableLocation
from pkray.storage.object_store import in_url, together
from pkray.storage.opening import open_store
from pkray.storage.secrets import hide, shown_url
from pkray.system import SYSTEM_TABLES, check_system_name
from pkray.table.databases import Databases, remove_folders
from pkray.table.system_table import SystemTable
from pkray.table.table import Table
from pkray.table.table_name import TableName
from pkray.table.views import StoredView, Views


@checked_class
class TableCatalog(Closeable):
    """Creates, finds, renames and drops tables and databases; knows nothing of queries."""

    _table_class: ClassVar[type[Table]] = Table

    def __init__(
        self,
        warehouse: str | os.PathLike[str],
        runtime: Runtime,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        warehouse = os.fspath(warehouse)
        # Owners and tasks in other processes open it too, from other working directories.
        self.warehouse = warehouse if "://" in warehouse else str(Path(warehouse).absolute())
        self.runtime = runtime
        self._storage_options = hide(storage_options or {})
        self.store = open_store(self.warehouse, **self._storage_options)
        self._databases = Databases(self.store, self.warehouse)
        self._views = Views(self.store, self._databases)

    def __repr__(self) -> str:
        return f"Catalog({shown_url(self.warehouse)!r}, {type(self.runtime).__name__})"

    def create_table(
        self,
        name: NameOfTable,
        schema: Columns,
        primary_keys: ColumnNames,
        partition_keys: ColumnNames = (),
        options: Options | None = None,
        comment: Comment | None = None,
        *,
        if_not_exists: bool = False,
    ) -> Table:
        """Create a table, and its database where that is not there.

        Args:
            name: ``database.table``.
            schema: a pyarrow schema, or names and types, as pairs or a mapping; a type is
                Paimon's (``("amount", "DECIMAL(10, 2)")``) or pyarrow's.
            primary_keys: the key; it includes the partition keys.
            partition_keys: the columns that make folders.
            options: Paimon's table options; ``bucket`` is the number of buckets (default 1).
            comment: what the table is.
            if_not_exists: return the table that is there instead of failing.

        Raises:
            TableExistsError: it is there.
            SchemaError: the definition contradicts itself.
            OptionError: an unknown option, or a value it does not take.
            UnsupportedError: a partition column's type has no folder name all engines agree on;
                or the object store replaces files that it is to create.
        """
        location = self._location(TableName.parse(name).require_itself())
        schemas = SchemaStore(location.open(), location.name)
        exists, view, _ = together(
            self.store,
            schemas.exists,
            lambda: self._views.find(location.name),
            location.open().check_creates,
        )
        if exists:
            if if_not_exists:
                return self._load(location)
            raise self._exists(location.name, "use it, or create it only if it does not exist")
        if view is not None:
            raise errors.TableExistsError(
                f"{location.name} is a view: drop it first, or choose another name",
                table=location.name,
            )
        definition = TableSchema.create(
            schema, primary_keys, partition_keys, as_options(options or {}), comment, now_millis()
        )
        PartitionSpec(definition)
        try:
            schemas.create(definition)
        except errors.TableExistsError:
            if not if_not_exists:
                raise
            return self._load(location)
        recall(location.open(), paths.LATEST_HINT, 0)
        written = definition.to_json()
        location = replace(location, identity=identity_of(written))
        return self._table_class(location, TableSchema.from_json(written), self.runtime)

    def load_table(self, name: NameOfTable) -> Table:
        """Load the table of that name.

        ``db.t$branch_b`` is the branch ``b`` of ``db.t``, as ``table.branch("b")``; ``db.t$files``
        and ``db.t$branch_b$files`` are system tables, each a `SystemTable`: of a table's methods
        they have those that read.

        Raises:
            TableNotFoundError: there is none.
            BranchNotFoundError: the table has no such branch.
            CorruptFileError: its schema file is damaged.
        """
        named = TableName.parse(name)
        location = self._location(named.itself).on_branch(named.branch)
        if named.branch is not None:
            BranchHistories(location.open(), named.itself).require(named.branch)
        table = self._load(location)
        if named.system is None:
            return table
        return cast(Table, self._open_system(table, named.system))

    def _open_system(self, table: Table, system: str) -> SystemTable:
        """Open a system table of a table."""
        check_system_name(table.name, system)
        return SystemTable(table, system)

    def table_exists(self, name: NameOfTable) -> bool:
        """Whether `load_table` finds it."""
        named = TableName.parse(name)
        location = self._location(named.itself).on_branch(named.branch)
        is_known = named.system is None or named.system in SYSTEM_TABLES
        return is_known and SchemaStore(location.open(), location.name).exists()

    def drop_table(
        self, name: NameOfTable, *, if_exists: bool = False, force: bool = False
    ) -> None:
        """Delete a table and its files.

        Args:
            force: even if something that is built on it, such as a continuous query, uses it.

        Raises:
            TableNotFoundError: there is none and ``if_exists`` is false.
            TableInUseError: something uses it, and `force` is false.
        """
        location = self._location(TableName.parse(name).require_itself())
        if not self.table_exists(name):
            if if_exists:
                return
            raise self._missing(location.name)
        if not force:
            self._check_unused(location.name, "dropped")
        store = self._databases.folder_of(location.name)
        self._stop(location)
        schema_files = [status.path for status in store.list("schema/")]
        store.delete(schema_files)
        store.delete([status.path for status in store.list("")])
        remove_folders(store)

    def rename_table(
        self, name: NameOfTable, new_name: NameOfTable, *, force: bool = False
    ) -> None:
        """Give a table another name, or move it to another database. End its writers first: those
        of other processes fail, and what they had not committed is gone. Load it again then: what
        was loaded before has the old name.

        Args:
            force: even if a continuous query reads or writes it.

        Raises:
            TableNotFoundError: there is none.
            TableInUseError: something uses it, and `force` is false.
            TableExistsError: the new name is taken.
            UnsupportedError: in an object store, which cannot move all files of a table at once.
        """
        source = self._location(TableName.parse(name).require_itself())
        target = self._location(TableName.parse(new_name).require_itself())
        if not self.table_exists(source.name):
            raise self._missing(source.name)
        if self.table_exists(target.name):
            raise self._exists(target.name, "drop it, or choose another name")
        if not force:
            self._check_unused(source.name, "renamed")
        old, new = source.open().local_path(""), target.open().local_path("")
        if old is None or new is None:
            raise errors.UnsupportedError(
                f"table {source.name} cannot be renamed in {self.warehouse}: an object store "
                "moves no folder at once; create another table and copy the rows",
                table=source.name,
            )
        self._stop(source)
        Path(new).parent.mkdir(parents=True, exist_ok=True)
        try:
            Path(old).rename(new)  # onto an empty folder at most
        except OSError as error:
            raise errors.StorageError(
                f"table {source.name} cannot be moved to {new}: {error.strerror}; remove what "
                "is there, or choose another name",
                path=new,
            ) from error

    def create_database(self, name: Name, *, if_not_exists: bool = False) -> None:
        """Make an empty database; `create_table` does so by itself.

        Raises:
            DatabaseExistsError: it is there and ``if_not_exists`` is false.
        """
        self._databases.create(name, if_not_exists=if_not_exists)

    def database_exists(self, name: Name) -> bool:
        """Whether `list_databases` has it."""
        return self._databases.exist(name)

    def drop_database(self, name: Name, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Delete a database.

        Args:
            cascade: and all of its tables.

        Raises:
            DatabaseNotFoundError: there is none and ``if_exists`` is false.
            TableError: it has tables and ``cascade`` is false.
        """
        if if_exists and not self.database_exists(name):
            return
        tables = self.list_tables(name)
        inside = [*tables, *self._views.names(name)]
        if inside and not cascade:
            raise errors.TableError(
                f"database {name} has tables: drop {', '.join(inside[:5])} first, or pass "
                "cascade=True",
                database=name,
                tables=tuple(inside),
                arguments=("cascade=True",),
            )
        for table in tables:
            self.drop_table(table, if_exists=True)
        self._databases.drop(name)

    def list_databases(self) -> list[str]:
        """List the databases, in order."""
        return self._databases.names()

    def list_tables(self, database: Name | None = None) -> list[str]:
        """List ``database.table`` of every table, in order.

        Args:
            database: of this one alone.

        Raises:
            DatabaseNotFoundError: there is no such database.
        """
        if database is not None:
            self._databases.require(database)
        found = []
        for each in [database] if database else self._databases.names():
            for location in map(self._location, self._databases.table_names(each)):
                if SchemaStore(location.open(), location.name).exists():
                    found.append(location.name)
        return sorted(found)

    def views(self, database: Name | None = None) -> list[str]:
        """List ``database.view`` of every stored view, in order.

        Raises:
            DatabaseNotFoundError: there is no such database.
        """
        if database is not None:
            self._databases.require(database)
        return self._views.names(database)

    def find_view(self, name: str) -> StoredView | None:
        """Find a stored view by ``database.view``; None where there is none."""
        return self._views.find(name)

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """Give what opens the object store; secrets are wrapped."""
        return self._storage_options

    def close(self) -> None:
        """Let go of the runtime; written rows that were not committed are dropped."""
        self.runtime.close()

    def _check_unused(self, name: str, what: str) -> None:
        """Check that nothing that is built on a table uses it; what is built on it says so."""

    def _location(self, name: str) -> TableLocation:
        """Locate ``database.table``."""
        folder = self._databases.table_folder(name)
        folder = in_url(folder) if "://" in self.warehouse else folder
        url = f"{self.warehouse.rstrip('/')}/{folder}"
        return TableLocation(url, name, self._storage_options)

    def _load(self, location: TableLocation) -> Table:
        store = location.open()
        try:
            identity, schema = identified(store, SchemaStore(store, location.name))
            return self._table_class(replace(location, identity=identity), schema, self.runtime)
        except errors.TableNotFoundError:
            raise self._missing(location.name) from None

    def _stop(self, location: TableLocation) -> None:
        """End the services of a table and of its branches."""
        location = replace(location, identity=read_identity(location.open()))
        self.runtime.stop(location)
        for branch in BranchHistories(location.open(), location.name).names():
            self.runtime.stop(location.on_branch(branch))

    def _missing(self, table: str) -> errors.TableNotFoundError:
        near = difflib.get_close_matches(table, self.list_tables(), n=1)
        hint = f"did you mean {near[0]}?" if near else "create it first, or correct its name"
        return errors.TableNotFoundError(
            f"table {table} does not exist in {self.warehouse}: {hint}", table=table
        )

    def _exists(self, table: str, remedy: str) -> errors.TableExistsError:
        return errors.TableExistsError(
            f"table {table} exists already in {self.warehouse}: {remedy}", table=table
        )
