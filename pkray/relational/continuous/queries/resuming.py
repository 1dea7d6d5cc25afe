"""Let queries go on that were to run, as when all processes of a cluster were lost."""

from __future__ import annotations

import logging
import time

from pkray.errors import PkrayError
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.queries.definitions.definition import Definition
from pkray.relational.continuous.queries.definitions.query_store import QueryStore
from pkray.relational.continuous.queries.starting import start
from pkray.relational.continuous.queries.stored import StoredQuery
from pkray.relational.continuous.queries.watched import GOING, Watched

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.2


def resume_wanted(catalog: Catalog) -> list[str]:
    """Let all queries of a warehouse go on that people want to run, and that no process runs.

    A query that has stopped on an error waits for somebody who mends the cause; one that reads or
    feeds what a program alone has waits for that program. Of a query whose status was written just
    now it is waited, for ten seconds at most, whether it is written again. What fails of one query
    is logged, and is no matter of others.

    Returns:
        their names.
    """
    store, resumed = QueryStore(catalog.store), []
    for definition in store.all():
        try:
            query = StoredQuery(catalog, definition)
            if _is_left(store, definition) and query.is_stored and not _is_run(query):
                start(query)
                resumed.append(definition.name)
        except PkrayError as error:
            _log.warning("query %s does not go on: %s", definition.name, error)
    return resumed


def _is_left(store: QueryStore, definition: Definition) -> bool:
    return store.is_wanted(definition) and store.failure(definition) is None


def _is_run(query: StoredQuery) -> bool:
    """Whether a process runs a query: the cluster does, or one that goes on writing its status."""
    watched = Watched(query)
    worker = watched.worker
    if worker is not None:
        return worker.is_running
    first = query.store.status(query.definition)
    while watched.progress()["state"] in GOING:
        if query.store.status(query.definition) != first:
            return True
        time.sleep(_LOOK_SECONDS)
    return False
