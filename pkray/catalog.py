"""A warehouse: databases of tables under one folder."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from pkray.commit.branches import MAIN, Branches
from pkray.commit.schemas import SchemaStore
from pkray.errors import OptionError, TableError, TableExistsError, TableNotFoundError
from pkray.format.partition import PartitionSpec
from pkray.schema import TableSchema
from pkray.service.local import LocalRuntime
from pkray.service.runtime import Runtime
from pkray.storage.location import TableLocation
from pkray.storage.object_store import ObjectStore
from pkray.table import Table
from pkray.types import DataType

_SUFFIX = ".db"
_BRANCH = "$branch_"


def connect(
    warehouse: str | os.PathLike[str],
    runtime: str | Runtime = "local",
    *,
    runtime_options: Mapping[str, Any] | None = None,
    **storage_options: Any,
) -> Catalog:
    """Open a warehouse.

    Args:
        warehouse: a local path or an object store's URL (``s3://bucket/prefix``); it need not
            exist yet.
        runtime: ``"local"`` runs the tables' owners in this process, ``"ray"`` as Ray actors.
        runtime_options: what the runtime takes, such as ``owners``, ``local_directory`` and,
            on Ray, ``address``.
        storage_options: what the object store needs, such as ``endpoint`` or ``region``.

    Raises:
        OptionError: another runtime's name, or an option that it or the store does not take.
        UnsupportedError: a URL's scheme that pkray does not do.
    """
    if isinstance(runtime, str):
        runtime = _runtime(runtime, dict(runtime_options or {}))
    return Catalog(warehouse, runtime, storage_options)


class Catalog:
    """Creates, finds and drops tables; made by `connect`."""

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
        self._storage_options = dict(storage_options or {})
        self._store = ObjectStore.open(self.warehouse, **self._storage_options)

    def create_table(
        self,
        name: str,
        schema: pa.Schema | Sequence[tuple[str, str | DataType]],
        primary_keys: Sequence[str],
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
        *,
        if_not_exists: bool = False,
    ) -> Table:
        """Create a table.

        Args:
            name: ``database.table``.
            schema: a pyarrow schema, or pairs of a name and a Paimon type
                (``("amount", "DECIMAL(10, 2)")``).
            primary_keys: the key; it includes the partition keys.
            partition_keys: the columns that make folders.
            options: Paimon's table options; ``bucket`` is the number of buckets (default 1).
            if_not_exists: return the table that is there instead of failing.

        Raises:
            TableExistsError: it is there.
            SchemaError: the definition contradicts itself.
            OptionError: an unknown option, or a value it does not take.
            UnsupportedError: a partition column's type has no folder name all engines agree on.
        """
        location = self._table_itself(name)
        schemas = SchemaStore(location.open(), location.name)
        if schemas.exists():
            if if_not_exists:
                return self.load_table(name)
            raise TableExistsError(
                f"table {location.name} exists already in {self.warehouse}: load it, or pass "
                "if_not_exists=True",
                table=location.name,
            )
        definition = TableSchema.create(
            schema,
            primary_keys,
            partition_keys,
            dict(options or {}),
            comment,
            time.time_ns() // 1_000_000,
        )
        PartitionSpec(definition)
        try:
            schemas.create(definition)
        except TableExistsError:
            if not if_not_exists:
                raise
        return self.load_table(name)

    def load_table(self, name: str) -> Table:
        """The table of that name; ``db.t$branch_b`` is the branch ``b`` of ``db.t``.

        Raises:
            TableNotFoundError: there is none.
            BranchNotFoundError: the table has no such branch.
            CorruptFileError: its schema file is damaged.
        """
        location = self._location(name)
        if location.branch is not None:
            Branches(location.open(), location.on_branch(None).name).require(location.branch)
        schema = SchemaStore(location.open(), location.name).latest()
        return Table(location, schema, self.runtime)

    def table_exists(self, name: str) -> bool:
        location = self._location(name)
        return SchemaStore(location.open(), location.name).exists()

    def drop_table(self, name: str, *, if_exists: bool = False) -> None:
        """Delete a table and its files.

        Raises:
            TableNotFoundError: there is none and ``if_exists`` is false.
        """
        location = self._table_itself(name)
        if not self.table_exists(name):
            if if_exists:
                return
            raise TableNotFoundError(
                f"table {location.name} does not exist in {self.warehouse}", table=location.name
            )
        store = location.open()
        self.runtime.stop(location)
        for branch in Branches(store, location.name).names():
            self.runtime.stop(location.on_branch(branch))
        schema_files = [status.path for status in store.list("schema/")]
        store.delete(schema_files)
        store.delete([status.path for status in store.list("")])

    def list_databases(self) -> list[str]:
        names = (name.rstrip("/").rsplit("/", 1)[-1] for name in self._store.list_dirs(""))
        return sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))

    def list_tables(self, database: str | None = None) -> list[str]:
        """``database.table`` of every table, in order."""
        found = []
        for name in [database] if database else self.list_databases():
            for folder in self._store.list_dirs(f"{name}{_SUFFIX}/"):
                table = f"{name}.{folder.rstrip('/').rsplit('/', 1)[-1]}"
                if self.table_exists(table):
                    found.append(table)
        return sorted(found)

    def close(self) -> None:
        """Let go of the runtime; written rows that were not committed are dropped."""
        self.runtime.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _location(self, name: str) -> TableLocation:
        database, dot, table = name.partition(".")
        if not dot or not database or not table or any(c in name for c in "/\\ "):
            raise TableNotFoundError(
                f"{name!r} is not a table's name: write database.table, such as shop.orders",
                table=name,
            )
        table, _, branch = table.partition(_BRANCH)
        url = f"{self.warehouse.rstrip('/')}/{database}{_SUFFIX}/{table}"
        location = TableLocation(url, f"{database}.{table}", self._storage_options)
        return location.on_branch(branch) if branch and branch != MAIN else location

    def _table_itself(self, name: str) -> TableLocation:
        location = self._location(name)
        if location.branch is not None:
            raise TableError(
                f"{name!r} is a branch: make and delete branches by table.branches of "
                f"{location.on_branch(None).name}",
                table=name,
                branch=location.branch,
            )
        return location


def _runtime(name: str, options: dict[str, Any]) -> Runtime:
    kind: Callable[..., Runtime]
    if name == "local":
        kind = LocalRuntime
    elif name == "ray":
        from pkray.service.ray_runtime import RayRuntime

        kind = RayRuntime
    else:
        raise OptionError(f"runtime {name!r} is unknown: use 'local' or 'ray'", value=name)
    known = inspect.signature(kind).parameters
    for option in options:
        if option not in known:
            raise OptionError(
                f"runtime_options {option!r} is unknown to runtime {name!r}: it takes "
                f"{', '.join(known)}",
                key=option,
            )
    return kind(**options)
