"""The queries of a warehouse that are to run, brought back and halted all together."""

from collections.abc import Iterator

from pkray.errors import MissingFileError, PkrayError, QueryFencedError, ServiceUnavailableError
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.queries.definitions.query_store import QueryStore
from pkray.relational.continuous.queries.hosting import hosted
from pkray.relational.continuous.queries.starting import start
from pkray.relational.continuous.queries.stored import StoredQuery
from pkray.relational.continuous.queries.watched import Watched


def wanted_queries(
    catalog: Catalog, broken: dict[str, PkrayError] | None = None
) -> list[StoredQuery]:
    """List the queries that people want to run, and that have neither failed nor ended.

    Args:
        broken: as of ``QueryStore.all``.
    """
    stored = (StoredQuery(catalog, each) for each in QueryStore(catalog.store).all(broken))
    return [each for each in stored if each.definition.tables and _is_wanted(each)]


def resume_wanted(catalog: Catalog) -> dict[str, PkrayError | None]:
    """Have the queries run that people want to, and that do not.

    Streams that programs feed are waited for.

    Returns:
        by the names of the queries, why one cannot run.
    """
    return dict(_resumed(catalog))


def halt_all(catalog: Catalog, timeout: float) -> None:
    """End the processes of the cluster that run queries, after the epochs that run.

    The queries remain wanted.

    Raises:
        ServiceUnavailableError: an epoch takes longer than `timeout` seconds.
    """
    for definition in QueryStore(catalog.store).all():
        query = StoredQuery(catalog, definition)
        worker = hosted(query)
        if worker is None:
            continue
        if worker.is_running and not worker.stop(timeout):
            raise ServiceUnavailableError(
                f"query {query.name} is in an epoch that has not ended in {timeout:g} s: stop the "
                "service again, with a larger timeout",
                query=query.name,
            )
        Watched(query).running.forget(query)


def _is_wanted(query: StoredQuery) -> bool:
    store, definition = query.store, query.definition
    try:
        if not store.is_wanted(definition) or store.failure(definition) is not None:
            return False
    except (QueryFencedError, MissingFileError):
        return False
    newest = query.log().newest_checkpoint()
    return newest is None or not newest.is_last


def _resumed(catalog: Catalog) -> Iterator[tuple[str, PkrayError | None]]:
    broken: dict[str, PkrayError] = {}
    wanted = wanted_queries(catalog, broken)
    yield from broken.items()
    for query in wanted:
        try:
            start(query, feeds=False)
        except PkrayError as error:
            yield query.name, error
        else:
            yield query.name, None
