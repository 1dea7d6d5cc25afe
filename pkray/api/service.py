"""The service of a warehouse, as those who run it hold it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pkray import relational
from pkray.arguments.facade import checked_class
from pkray.arguments.whole_number import checked_number, whole_number
from pkray.errors import OptionError, PkrayError, ServiceStartError, UnsupportedError
from pkray.lsm.compaction.under_way import UnderWay
from pkray.metrics.collection import Collected
from pkray.relational.catalog import Catalog
from pkray.service.administration import Administered, Placed
from pkray.shown import html_table
from pkray.storage.location import TableLocation
from pkray.storage.secrets import redact, shown_url
from pkray.table.table import Table

_COLUMNS: tuple[tuple[str, pa.DataType], ...] = (
    ("kind", pa.string()),
    ("name", pa.string()),
    ("state", pa.string()),
    ("worker", pa.int64()),
    ("node", pa.string()),
    ("host", pa.string()),
    ("pid", pa.int64()),
    ("memory", pa.int64()),
    ("age", pa.float64()),
)


class ServiceStatus:
    """Lists what the service of a warehouse runs, and where.

    Attributes:
        placed: the processes, the parts of tables in them, and queries.
    """

    def __init__(self, warehouse: str, placed: Sequence[Placed]) -> None:
        self._warehouse = warehouse
        self.placed = tuple(placed)

    def to_arrow(self) -> pa.Table:
        """Make a table: ``kind``, ``name``, ``state``, ``worker``, ``node``, ``host``, ``pid``,
        ``memory`` (bytes) and ``age`` (seconds)."""
        rows = [vars(each) for each in self.placed]
        return pa.Table.from_pylist(rows, schema=pa.schema(_COLUMNS))

    @property
    def is_running(self) -> bool:
        """Whether there is a process of it."""
        return any(each.kind in ("keeper", "worker") for each in self.placed)

    def __repr__(self) -> str:
        counts: dict[str, int] = {}
        for each in self.placed:
            counts[each.kind] = counts.get(each.kind, 0) + 1
        what = ", ".join(f"{kind}: {count}" for kind, count in sorted(counts.items()))
        return f"ServiceStatus({self._warehouse!r}, {what or 'stopped'})"

    def _repr_html_(self) -> str:
        names = [name for name, _ in _COLUMNS]
        rows = [[getattr(each, name) for name in names] for each in self.placed]
        return html_table(f"service of {self._warehouse}", rows, names)


@checked_class
class Service:
    """The processes that serve a warehouse's tables on a Ray cluster; made by `Catalog.service`."""

    def __init__(self, catalog: Catalog) -> None:
        runtime = catalog.runtime
        if not isinstance(runtime, Administered):
            raise UnsupportedError(
                "the tables of this catalog are served by this process itself: connect with "
                "runtime='ray', on the command line with --ray"
            )
        self._catalog = catalog
        self._warehouse = shown_url(catalog.warehouse)
        self._runs = runtime.administration(
            catalog.warehouse, catalog.storage_options, self._locations
        )

    def __repr__(self) -> str:
        return f"Service({self._warehouse!r})"

    def start(self, timeout: float = 120.0) -> ServiceStatus:
        """Start what is to run, as the warehouse's files say: the pool of workers, its tables, and
        the queries that were not stopped.

        What runs already is left as it is.

        Args:
            timeout: seconds in which the workers are to have started.

        Raises:
            ServiceUnavailableError: they have not.
            ServiceStartError: tables or queries cannot be started; all others are.
        """
        timeout = checked_number("timeout", timeout, 0)
        failures: dict[str, PkrayError] = {}
        for name in self._catalog.list_tables():
            try:
                table = self._catalog.load_table(name)
                table.runtime.service(table.location, table.schema)
            except PkrayError as error:
                failures[name] = error
        self._runs.start(timeout)
        resumed = relational.resume_wanted(self._catalog)
        failures |= {name: error for name, error in resumed.items() if error is not None}
        if failures:
            said = "; ".join(f"{name}: {error}" for name, error in sorted(failures.items()))
            raise ServiceStartError(
                f"{len(failures)} tables or queries cannot be started, all others are: {said}",
                names=sorted(failures),
            )
        return self.status()

    def keep(self, timeout: float = 120.0) -> bool:
        """Start what is to run again where no pool is, as after all workers were lost; keep one
        without tables from ending for half a minute.

        Args:
            timeout: as of `start`.

        Returns:
            whether it was started.

        Raises:
            ServiceUnavailableError, ServiceStartError: as of `start`.
        """
        if self._runs.hold():
            return False
        self.start(timeout)
        return True

    def status(self) -> ServiceStatus:
        """Say what runs, and where; what does not answer within some seconds is ``silent``."""
        placed = self._runs.placed()
        works = {each.name: each for each in placed if each.kind == "work"}
        broken: dict[str, PkrayError] = {}
        found = relational.list_queries(self._catalog, broken)
        queries = [Placed("query", name, "unknown") for name in broken]
        for query in found:
            try:
                state = str(query.status()["state"])
            except PkrayError:
                state = "unknown"
            name = _host_of(query)
            at = works.get(name, Placed("query", "", state))
            queries.append(replace(at, kind="query", name=query.name, state=state))
            queries += [
                replace(each, kind="query", name=f"{query.name} {work.removeprefix(f'{name}/')}")
                for work, each in works.items()
                if work.startswith(f"{name}/")
            ]
        return ServiceStatus(
            self._warehouse, [*(each for each in placed if each.kind != "work"), *queries]
        )

    def stop(self, timeout: float = 60.0) -> None:
        """End the processes: queries after the epochs that run, then tables after the commits that
        run.

        Rows that are written and not committed are dropped; writers whose process lives push them
        again to the next service, which whoever uses a table starts. Queries remain wanted: `start`
        has them go on.

        Args:
            timeout: seconds that the epoch of a query may take.

        Raises:
            ServiceUnavailableError: it takes longer.
        """
        relational.halt_all(self._catalog, checked_number("timeout", timeout, 0))
        self._runs.stop()

    def drain(self, node: str, timeout: float = 120.0) -> str:
        """Hand all that a node's workers have over to those of other nodes, and keep new parts away
        from it, until `undrain`.

        What is idle moves at once, all else between two commits or after some 20 seconds. Calls
        follow it, and writers push again what was not committed.

        Args:
            node: its id in Ray, four or more digits that the id begins with, or its address.
            timeout: seconds for which to wait until the workers have nothing.

        Returns:
            the id of the node.

        Raises:
            NodeNotFoundError: none, or more than one, has the name.
            ServiceUnavailableError: it takes longer; it goes on.
        """
        return self._runs.drain(node, True, checked_number("timeout", timeout, 0))

    def undrain(self, node: str) -> str:
        """Let a node's workers have parts again; as of `drain`."""
        return self._runs.drain(node, False, 0.0)

    def restart(self, timeout: float = 120.0) -> int:
        """Begin one worker after the other anew, while writers go on: each has handed over what it
        has, where there is another one, as of `drain`.

        Args:
            timeout: seconds that one worker may take.

        Returns:
            how many workers have begun anew.

        Raises:
            ServiceUnavailableError: one takes longer; those after it were not begun anew.
        """
        return self._runs.restart(checked_number("timeout", timeout, 0))

    def logs(
        self, table: str | None = None, query: str | None = None, lines: int = 100
    ) -> dict[str, str]:
        """Read the ends of what the processes have written.

        Args:
            table: of those alone that have something of this table.
            query: of those alone that run this query.
            lines: of each process, at most.

        Returns:
            texts by process, without secrets; empty where one does not answer.

        Raises:
            OptionError: both a table and a query, or no number of lines.
            TableNotFoundError, QueryNotFoundError: there is none of the name.
        """
        lines = whole_number("lines", lines, 1)
        if table is not None and query is not None:
            raise OptionError("give a table or a query, not both", value=query)
        names = None
        if table is not None:
            names = self._runs.workers_of(self._catalog.load_table(table).name)
        elif query is not None:
            name = _host_of(relational.find_query(self._catalog, query))
            names = self._runs.workers_of(name) or [name]
        texts = self._runs.logs(names, lines)
        options = self._catalog.storage_options
        return {name: redact(text, options) for name, text in texts.items()}

    @property
    def dashboard(self) -> str | None:
        """The address of Ray's dashboard; None where nobody serves one."""
        return self._runs.dashboard()

    def _collected(self) -> dict[str, Collected]:
        """Collect what the processes count, by process."""
        queries = relational.list_queries(self._catalog, {})
        hosts = [_host_of(each) for each in queries]
        tables = self._catalog.list_tables()
        return self._runs.metrics(tables, [each.name for each in queries], hosts)

    def _processes(self) -> Sequence[Placed]:
        """List the processes, and what tables have in them."""
        return self._runs.placed()

    def _compactions(self, table: Table) -> list[UnderWay]:
        """List the compactions of a table that run in the processes."""
        return self._runs.compactions(table.name, table._store.url)

    def _locations(self) -> list[TableLocation]:
        found = []
        for name in self._catalog.list_tables():
            try:
                found.append(self._catalog.load_table(name).location)
            except PkrayError:  # one that is damaged has no processes
                continue
        return found


def _host_of(query: Any) -> str:
    """Name the work, or the process, that runs a query."""
    return str(query._watched.current.host_name)
