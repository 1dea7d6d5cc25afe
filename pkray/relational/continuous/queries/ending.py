"""End a query: stop what runs and feeds it, and delete what is kept for it."""

import time

from pkray.errors import ServiceUnavailableError
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.queries.definitions.query_store import QueryStore
from pkray.relational.continuous.queries.incarnations import savepoints
from pkray.relational.continuous.queries.incarnations.begun import fence
from pkray.relational.continuous.queries.stored import IN_PROCESS, StoredQuery
from pkray.relational.continuous.queries.watched import GOING, Watched
from pkray.relational.continuous.upgrades.switching import forget

_LOOK_SECONDS = 0.1
"""Between two looks whether another process has stopped a query."""


def stop(query: Watched, timeout: float = 60.0, known: StoredQuery | None = None) -> None:
    """End a query after the epoch that runs; as of `Query.stop`.

    Args:
        known: the query as its caller knows it: no later incarnation is stopped.
    """
    current = query.current if known is None else known
    current.store.check_current(current.definition)
    current.store.want(current.definition, running=False)
    query.running.stop_feeding(current)
    worker = query.worker
    if worker is None:
        _await_silence(query, timeout)
    else:
        if worker.stop(timeout):
            query.running.forget(current)
        elif query.running.cut_off(current):
            current.store.note_status(current.definition, Watched(current).at_rest())
        else:
            raise ServiceUnavailableError(
                f"query {query.name} is in an epoch that has not ended in {timeout} s: it stops "
                "after it"
            )


def _await_silence(query: Watched, timeout: float) -> None:
    """Wait until another process that runs the query has seen that it is to stop."""
    deadline = time.monotonic() + timeout
    while query.status()["state"] in GOING:
        if time.monotonic() > deadline:
            raise ServiceUnavailableError(
                f"query {query.name} runs in another process, which has not stopped it in "
                f"{timeout} s"
            )
        time.sleep(_LOOK_SECONDS)


def drop(query: Watched) -> None:
    """End a query, and delete all that is kept for it but its tables."""
    current = query.current
    stop(query, known=current)
    dropped = current.store.drop(current.definition)
    if dropped is not None:
        _clear(current.changed(dropped))


def clear_dropped(catalog: Catalog, name: str) -> None:
    """Delete what a drop that was broken off has left."""
    dropped = QueryStore(catalog.store).find_dropped(name)
    if dropped is not None:
        _clear(StoredQuery(catalog, dropped))


def _clear(query: StoredQuery) -> None:
    """Delete all that is kept for a query that was dropped; done again it ends the same."""
    fence(query.definition, list(query.results(lenient=True).values()))
    upgrade = query.site.find()
    if upgrade is not None:
        forget(query.site, upgrade)
    savepoints.forget_all(query.definition, query.log(), query.tables())
    IN_PROCESS.pop(query.key, None)
    query.store.clear(query.definition)
