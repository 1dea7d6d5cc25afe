"""The processes of a warehouse's service, as those who run it see and move them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pkray.lsm.compaction.under_way import UnderWay
from pkray.metrics.collection import Collected
from pkray.storage.location import TableLocation


@dataclass(frozen=True)
class Placed:
    """One thing that the service runs, and where it is.

    Args:
        kind: ``keeper``, ``worker``, ``coordinator``, ``owner``, ``query`` or
            ``table`` (none of its parts is open); of a runtime also ``work``.
        name: of the table or query; of a process of the pool its number.
        state: ``running``, ``silent`` (does not answer), ``starting``, ``draining``,
            ``drained``, ``lost`` (its process is), or what a query says of itself.
        node: the id of the node in Ray.
        memory: bytes that its process takes, with all else that is in it.
        age: seconds that its process has run.
    """

    kind: str
    name: str
    state: str
    worker: int | None = None
    node: str | None = None
    host: str | None = None
    pid: int | None = None
    memory: int | None = None
    age: float | None = None


class Administration(Protocol):
    """The service of one warehouse, as a runtime runs it."""

    def start(self, seconds: float) -> None:
        """Start the pool, if it does not run, and wait until its workers do."""

    def hold(self) -> bool:
        """Whether there is a pool; it does not end for half a minute, with tables or without."""

    def placed(self) -> Sequence[Placed]:
        """List the processes, and what tables have in them."""

    def logs(self, names: Sequence[str] | None, lines: int) -> dict[str, str]:
        """Read the ends of what processes have written.

        Args:
            names: of their actors; None: all of the pool.

        Returns:
            texts by the name of the process; an empty one where it does not answer.
        """

    def dashboard(self) -> str | None:
        """Say where the cluster's own pages are; None: nobody serves any."""

    def metrics(
        self, tables: Collection[str], queries: Collection[str], hosts: Sequence[str]
    ) -> dict[str, Collected]:
        """Collect what the processes count, by process; those that do not answer are left out.

        Args:
            tables, queries: names of those that there are; series of others end.
            hosts: names of the actors that queries have of their own.
        """

    def compactions(self, table: str, url: str) -> list[UnderWay]:
        """List the compactions of a table that run in the processes; those that do not answer are
        left out.

        Args:
            table: its name.
            url: of its root.
        """

    def workers_of(self, thing: str) -> list[str]:
        """Name the actors in which a table, or work, has something."""

    def drain(self, node: str, drained: bool, seconds: float) -> str:
        """Empty the workers of a node, or let them have parts again; return the node's id."""

    def restart(self, seconds: float) -> int:
        """Begin one worker after the other anew, each when it is empty; return how many."""

    def stop(self) -> None:
        """End the pool; what is written and not committed is dropped."""


Tables = Callable[[], Sequence[TableLocation]]


@runtime_checkable
class Administered(Protocol):
    """A runtime whose services are processes that outlive this one."""

    def administration(
        self, warehouse: str, storage_options: Mapping[str, Any], tables: Tables
    ) -> Administration:
        """Give the service of a warehouse.

        Args:
            tables: lists where its tables are.
        """
