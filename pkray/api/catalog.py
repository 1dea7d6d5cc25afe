"""The catalog as its users hold it: tables, and queries over them."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

from pkray import relational
from pkray.api.metrics import Measured, Metrics
from pkray.api.service import Service
from pkray.api.table import SystemTable, Table
from pkray.arguments import facade
from pkray.arguments.facade import Name, Warehouse, checked, checked_class
from pkray.errors import OptionError, PkrayError, TableNotFoundError
from pkray.relational import catalog
from pkray.relational.lasting import close_lasting
from pkray.service.runtime import Runtime
from pkray.service.runtimes import open_runtime
from pkray.service.settings import Settings
from pkray.system import check_system_name
from pkray.table import table
from pkray.table.table_name import TableName


@checked
def connect(
    warehouse: Warehouse,
    runtime: str | Runtime = "local",
    *,
    runtime_options: facade.Settings | None = None,
    **storage_options: Any,
) -> Catalog:
    """Open a warehouse.

    Args:
        warehouse: a local path or an object store's URL (``s3://bucket/prefix``); it need not
            exist yet.
        runtime: ``"local"`` runs the tables' owners in this process, ``"ray"`` as Ray actors.
        runtime_options: what the runtime takes, such as ``owners``, ``local_directory``,
            ``call_timeout``, ``lookup_timeout`` and ``writer_lease`` (seconds) and, on Ray,
            ``address``.
        storage_options: what the object store needs, such as ``endpoint`` or ``region``; no text
            shows keys among them. ``retry_timeout`` (30s) is how long a request may go without
            an answer, ``max_retries`` (10) how often it is repeated, ``parallel_requests`` (32)
            how many are under way at a time for one piece of work.

    Raises:
        OptionError: no warehouse or a file, another runtime's name, or an option that it or the
            store does not take.
        UnsupportedError: a URL's scheme that pkray does not do.
        ServiceUnavailableError: no Ray cluster answers at the address.
        StorageError: ``local_directory`` cannot be made.
    """
    _check_warehouse(warehouse)
    if not isinstance(runtime, str):
        if runtime_options:
            raise OptionError(
                f"runtime_options {sorted(runtime_options)} go with the name of a runtime: give "
                "them to the runtime where it is made"
            )
        return Catalog(warehouse, runtime, storage_options)
    opened = open_runtime(runtime, runtime_options or {}, storage_options)
    try:
        return Catalog(warehouse, opened, storage_options)
    except PkrayError:
        opened.close()
        raise


@checked
def connect_as_set() -> Catalog:
    """Open the warehouse that settings name, as the command line and the service do.

    They stand in the environment (``PKRAY_WAREHOUSE``, ``PKRAY_RAY``, …) and in the file of
    ``PKRAY_SETTINGS``: `pkray service settings` lists them. With the same settings a program shares
    the processes of a service on Ray.

    Raises:
        OptionError: an unknown setting, or a wrong value; otherwise as of `connect`.
    """
    settings = Settings.read(os.environ)
    return connect(**settings.connection(ray=settings["ray"]))


def _check_warehouse(warehouse: str | os.PathLike[str]) -> None:
    if not os.fspath(warehouse).strip():
        raise OptionError("the warehouse is empty: name a folder, or an object store's URL")
    with suppress(OSError):  # such as a name that is too long: said by who makes it
        if Path(warehouse).is_file():
            raise OptionError(f"the warehouse {os.fspath(warehouse)!r} is a file: name a folder")


@checked_class
class Catalog(catalog.Catalog):
    """Creates, finds, renames and drops tables and databases, and queries them; made by `connect`.

    ``load_table`` also has what queries keep beside the tables of their results:
    ``db.t$state_3``, what node 3 of the query of ``db.t`` remembers, ``db.t$errors``, rows that it
    skipped, and ``db.t$late``, those that came too late.
    """

    _table_class: ClassVar[type[Table]] = Table

    def sql(self, text: str, dialect: str = "spark") -> Any:
        """Read one SQL statement, and do it or make it ready.

        Args:
            dialect: ``spark`` or ``flink``: the rules of types, NULLs and overflow.

        Returns:
            Of a query a `pkray.relational.Relation`; of INSERT and a statement set a
            `pkray.relational.Statement`, which runs nothing until it is told to; of all else,
            which is done at once, a pyarrow Table.

        Raises:
            QueryError: it is not understood; line and column say where.
        """
        return relational.run_statement(self, text, dialect)

    def create_view(self, name: Name, query: object, temporary: bool = False) -> None:
        """Give a query a name, under which other queries read it.

        Args:
            name: ``database.view``, or a name in the current database.
            query: a Relation, or SQL text in the spark dialect.
            temporary: keep it in this object alone; else it is stored in the warehouse.

        Raises:
            QueryError: the query is wrong, or reads what the warehouse does not hold.
            TableExistsError: a table or a stored view has the name.
        """
        relational.create_view(self, name, query, temporary=temporary)

    def drop_view(self, name: Name, *, if_exists: bool = False) -> None:
        """Forget a view: a temporary one before a stored one of the same name.

        Raises:
            TableNotFoundError: there is none and ``if_exists`` is false.
        """
        relational.drop_view(self, name, if_exists=if_exists)

    def load_plan(self, path: str | os.PathLike[str]) -> Any:
        """Read a compiled plan.

        Args:
            path: a URL, or a path from the working directory on.

        Returns:
            a `pkray.relational.Plan`.

        Raises:
            MissingFileError: there is none.
            PlanError: it is malformed, newer than this pkray, or of other tables: each fault with
                its JSON pointer.
        """
        return relational.load_plan(self.session, path)

    def register_function(self, name: Name, function: Any) -> None:
        """Give a Python function (`pkray.relational.udf`) a name in this object's queries.

        Raises:
            QueryError: SQL has a function of this name.
        """
        relational.register_function(self, name, function)

    def query(self, name: Name) -> Any:
        """Find a continuous query.

        Raises:
            QueryNotFoundError: there is none of this name.
        """
        return relational.held(relational.find_query(self, name))

    def queries(self) -> list[Any]:
        """List the continuous queries of the warehouse, whether they run or not."""
        return [relational.held(each) for each in relational.list_queries(self)]

    def service(self) -> Service:
        """Give the processes that serve the warehouse's tables, to be started, watched and moved.

        Raises:
            UnsupportedError: this process serves them itself: the runtime is not ``ray``.
        """
        return Service(self)

    def metrics(self, *, by_bucket: bool = False) -> Metrics:
        """Measure the warehouse's tables, its queries and the processes that serve them, under the
        names that Prometheus shows: see `pkray.metrics.names`.

        On Ray the processes of the service are asked; otherwise this process counts for itself.

        Args:
            by_bucket: also levels, backlog and lookups of each bucket: a table may have thousands.
        """
        return self._measured.metrics(by_bucket)

    @cached_property
    def _measured(self) -> Measured:
        return Measured(self)

    def backups(self, store: Warehouse, **storage_options: Any) -> Any:
        """Open a store of backups of this warehouse.

        Args:
            store: a folder, or an object store's URL; it is made with the first backup.
            storage_options: what opens an object store, as of `connect`; those of the warehouse
                where none are given. A folder takes none.

        Raises:
            StorageError: it is no such folder or URL.
        """
        url = os.fspath(store)
        own = self.storage_options if "://" in url else {}
        return relational.Backups(self, url, storage_options or own)

    def close(self) -> None:
        """Let go of the runtime; written rows that were not committed are dropped."""
        close_lasting(self.runtime)
        super().close()

    def _open_system(self, table: table.Table, system: str) -> SystemTable:
        if system.startswith("state_") or system in ("errors", "late"):
            try:
                return SystemTable(relational.state_rows(self, table, system), system)
            except TableNotFoundError:
                beside = TableName.parse(table.name).errors
                if system != "errors" or not self.table_exists(beside):
                    raise
                return cast(SystemTable, self.load_table(beside))
        check_system_name(table.name, system)
        return SystemTable(table, system)

    def _check_unused(self, name: str, what: str) -> None:
        if self.store.list_dirs(".queries"):
            relational.check_unused(self.store, name, what)
