"""A continuous query as it is seen from outside: what it does, and waiting for that."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pkray import errors
from pkray.clock import now_millis
from pkray.relational.continuous.feeds.streams import feeding_status
from pkray.relational.continuous.queries.definitions.query_store import failure_status
from pkray.relational.continuous.queries.running import RunningQueries, running_queries
from pkray.relational.continuous.queries.stored import StoredQuery
from pkray.relational.continuous.upgrades.upgrade import described
from pkray.service.hosted import Hosted

SILENT_MILLIS = 10_000
"""A query that has said nothing for so long runs in no process."""
GOING = ("running", "starting")
"""The states of a query that some process runs."""
_LOOK_SECONDS = 0.1
"""Between two looks at a query that another process runs."""


class Watched:
    """A query that some process may run, this one or another.

    Attributes:
        stored: the query as it was last read.
        name: the query's.
    """

    def __init__(self, stored: StoredQuery) -> None:
        self.stored = stored
        self.name = stored.name

    @property
    def current(self) -> StoredQuery:
        """Read what the query is now; as of `StoredQuery.current`."""
        self.stored = self.stored.current()
        return self.stored

    @property
    def tables(self) -> tuple[str, ...]:
        """Name its results."""
        return self.stored.definition.tables

    @property
    def running(self) -> RunningQueries:
        """Give the queries of its runtime that run in this process."""
        return running_queries(self.stored.catalog.runtime)

    @property
    def worker(self) -> Hosted | None:
        """Find what runs it: a thread of this process, or a process of the cluster."""
        return self.running.find(self.stored)

    def status(self) -> dict[str, Any]:
        """Say what it does; as of `Query.status`."""
        status, current = self.progress(), self.current
        status = {**status, "incarnation": current.definition.incarnation}
        if current.definition.sql:
            status["sql"] = current.definition.sql
        if current.definition.copy_of:
            status["copy_of"] = current.definition.copy_of
        if upgrade := described(current.site):
            status["upgrade"] = upgrade
        if current.definition.streams:
            status["streams"] = feeding_status(current.folder, current.definition.streams)
        if status["epoch"] < 0 and (backfill := current.backfill()):
            status["backfill"] = backfill.status()
        return status

    def progress(self) -> dict[str, Any]:
        """Say how far it is: `status` without what is beside its run."""
        self.stored = self.stored.current()
        worker = self.worker
        if worker is not None:
            said = worker.status()
            if said["state"] != "fenced":
                return said
        return self._written() or self.at_rest()

    def _written(self) -> dict[str, Any] | None:
        """Read what a process that runs it has said just now; None where there is none."""
        written = self.stored.store.status(self.stored.definition)
        if written is None or now_millis() - written[0] >= SILENT_MILLIS:
            return None
        return written[1]

    def at_rest(self) -> dict[str, Any]:
        """Say how it stands where no process runs it."""
        current = self.stored
        written = current.store.status(current.definition)
        failure = current.store.failure(current.definition)
        found = current.log().newest_checkpoint()
        return {
            "state": "failed" if failure else "ended" if found and found.is_last else "stopped",
            **failure_status(failure),
            "epoch": found.epoch if found else -1,
            "sources": dict(found.positions) if found else {},
            "late": sum(found.late.values()) if found else 0,
            "nodes": list(written[1].get("nodes", [])) if written else [],
        }

    def wait(self, snapshots: Mapping[str, int], timeout: float) -> int | None:
        """Wait until changes of the sources are in the result; as of `Query.wait`."""

        def unread(status: dict[str, Any]) -> list[str]:
            at = status["sources"]
            return [name for name in snapshots if at and name not in at]

        def settled(status: dict[str, Any]) -> bool:
            at = status["sources"]
            reached = all(at.get(name, -1) >= number for name, number in snapshots.items())
            return reached or bool(unread(status))

        status = self._wait(settled, timeout)
        if not settled(status):
            self._check_goes_on(status)
            raise errors.ServiceUnavailableError(
                f"query {self.name} has not reached {dict(snapshots)} within {timeout} s: it is "
                f"at {status['sources']}{_waits_for(status, snapshots)}"
            )
        for name in unread(status):
            raise errors.OptionError(
                f"query {self.name} does not read {name}: it reads {', '.join(status['sources'])}",
                value=name,
            )
        if not self.tables:
            return None
        snapshot = self.stored.catalog.load_table(self.tables[0]).at().snapshot
        return snapshot.id if snapshot else None

    def _wait(self, reached: Callable[[dict[str, Any]], bool], timeout: float) -> dict[str, Any]:
        """Wait until the status is as wanted, time is over, or nobody runs the query; give it."""
        deadline = time.monotonic() + timeout
        while True:
            worker = self.worker
            if worker is not None:
                worker.wait(reached, max(deadline - time.monotonic(), 0.0))
                return worker.status()
            status = self.progress()
            if reached(status) or status["state"] not in GOING or time.monotonic() > deadline:
                return status
            time.sleep(_LOOK_SECONDS)

    def _check_goes_on(self, status: Mapping[str, Any]) -> None:
        """Check that a query has not ended.

        Raises:
            QueryFailedError, QueryFencedError, ServiceUnavailableError: it has, and how.
        """
        if status["state"] == "stopped":  # its process may have ended without a word
            status = self.progress()
        self._raise_failure(status)
        if status["state"] == "fenced":
            self.stored.store.check_current(self.stored.definition)
            raise errors.QueryFencedError(
                f"query {self.name} does not run in this process any more, as another run took "
                "over: find it again by catalog.query(…)",
                query=self.name,
            )
        if status["state"] not in GOING:
            raise errors.ServiceUnavailableError(
                f"query {self.name} is {status['state']}: resume() it first"
            )

    def wait_ended(self, timeout: float) -> None:
        """Wait until it has ended by itself; as of `Query.wait_ended`."""
        deadline = time.monotonic() + timeout
        while True:
            worker = self.worker
            status = self.progress() if worker is None else worker.status()
            goes_on = status["state"] in GOING if worker is None else worker.is_running
            if not goes_on:
                break
            if time.monotonic() > deadline:
                raise errors.ServiceUnavailableError(
                    f"query {self.name} still runs after {timeout} s"
                )
            if worker is None:
                time.sleep(_LOOK_SECONDS)
            else:
                worker.wait(lambda _: False, min(_LOOK_SECONDS, deadline - time.monotonic()))
        if status["state"] not in ("stopped", "ended"):
            self._check_goes_on(status)

    def _raise_failure(self, status: Mapping[str, Any]) -> None:
        if status["failure"] is not None:
            node = status.get("failed_node")
            at = f" at {node}" if node else ""
            raise errors.QueryFailedError(
                f"query {self.name} stopped{at}: {status['failure']}; mend the cause, then "
                "resume() it",
                query=self.name,
                node=node,
            )


def _waits_for(status: Mapping[str, Any], names: Collection[str]) -> str:
    """Say which of the sources are to be compacted before they can be read on."""
    return "".join(
        f"; snapshot {untold['snapshot']} of {name} has rows that its changelog tells of once they "
        f"are compacted: catalog.load_table({name!r}).compact(full={untold['full']})"
        for name, untold in status.get("untold", {}).items()
        if name in names
    )
