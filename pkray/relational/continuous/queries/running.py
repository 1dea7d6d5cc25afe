"""The queries that run in this process, by their runtime: their workers, and what feeds them."""

from collections.abc import Callable, Sequence
from typing import Any

from pkray.relational.continuous.queries import hosting
from pkray.relational.continuous.queries.opening import open_worker
from pkray.relational.continuous.queries.stored import StoredQuery
from pkray.relational.continuous.queries.workers.worker import QueryWorker
from pkray.relational.lasting import lasting
from pkray.relational.sources.streamed import RunningFeeder
from pkray.service.hosted import Hosted


class RunningQueries:
    """The workers and feeders of one runtime that are threads of this process."""

    def __init__(self) -> None:
        self._workers: dict[str, QueryWorker] = {}
        self._feeders: dict[str, list[RunningFeeder]] = {}

    def here(self, query: StoredQuery) -> QueryWorker | None:
        """Find the thread of this process that runs a query."""
        return self._workers.get(query.key)

    def find(self, query: StoredQuery) -> Hosted | None:
        """Find what runs a query: a thread of this process, or a process of the cluster."""
        return self.here(query) or hosting.hosted(query)

    def start(self, query: StoredQuery, clock: Callable[[], int] | None) -> None:
        """Run a query: in a process of the cluster, where it has one, else in a thread.

        Args:
            clock: of processing time; only this process has it.
        """
        if hosting.is_hosted(query, clock):
            hosting.host(query)
        else:
            self._workers[query.key] = open_worker(query, clock)

    def forget(self, query: StoredQuery) -> None:
        """Let go of a query whose work has ended, with its processes."""
        self._workers.pop(query.key, None)
        hosting.end_hosted(query)

    def cut_off(self, query: StoredQuery) -> bool:
        """End a query in the middle of an epoch, which its next run does again.

        Returns:
            false where that would be no matter of its own process alone.
        """
        is_alone = self.here(query) is None and hosting.calls_functions(query)
        if is_alone:
            hosting.end_hosted(query)
        return is_alone

    def is_fed(self, query: StoredQuery) -> bool:
        """Whether something of this process feeds a query."""
        return any(each.is_running for each in self._feeders.get(query.key, ()))

    def feed(self, query: StoredQuery, feeders: Sequence[RunningFeeder]) -> None:
        """Keep what feeds a query, until it is stopped."""
        self._feeders.setdefault(query.key, []).extend(feeders)

    def stop_feeding(self, query: StoredQuery) -> None:
        """Stop what feeds a query."""
        for feeder in self._feeders.pop(query.key, ()):
            feeder.stop()

    def close(self) -> None:
        """Stop them all."""
        for feeder in (each for feeders in self._feeders.values() for each in feeders):
            feeder.stop()
        for worker in self._workers.values():
            worker.close()


def running_queries(runtime: Any) -> RunningQueries:
    """Give the queries of a runtime that run in this process."""
    return lasting(runtime, RunningQueries)
