"""Sums up all tables and queries, and says what needs attention: the first page."""

from collections.abc import Iterator
from typing import Any

from pkray import relational
from pkray.api.catalog import Catalog
from pkray.api.query import Query
from pkray.errors import PkrayError, TableNotFoundError, UnsupportedError
from pkray.inspection.cells import records_of
from pkray.metrics import names
from pkray.metrics.collection import Collected, Distribution
from pkray.metrics.metric import Metric
from pkray.storage.secrets import redact, shown_url

STALE_SECONDS, OLD_SECONDS = 5.0, 60.0
"""Say from when on a query's result is behind, and far behind: as the alerts have it."""
MANY_LEVEL0_FILES = 10
"""In a bucket: merging them at each read costs more than compacting them."""
_LOG_LINES = 100
_LONG_LAG = 1000
"""Snapshots that a consumer keeps from expiring."""
MUCH_MEMORY, FULL_MEMORY = 0.8, 0.9
"""Shares of a machine's memory: as the alerts have it."""
_FAILURE_LETTERS = 300
"""Bounds an error in a note: the query's page has all of it."""


def home(catalog: Catalog) -> dict[str, Any]:
    """List tables and queries with their sizes and health, and what needs attention first."""
    collected = catalog.metrics().collected
    tables = [_table(name, collected) for name in catalog.list_tables()]
    broken: dict[str, PkrayError] = {}
    found = relational.list_queries(catalog, broken)
    queries = [_query(relational.held(each), collected) for each in found]
    notes = [
        *_of_queries(queries),
        *(
            _note(0, "query", name, "cannot be read", _why(catalog, error))
            for name, error in broken.items()
        ),
        *_unreadable(catalog, tables),
        *_of_processes(catalog),
        *_of_tables(catalog, tables),
        *_of_workers(collected),
    ]
    return {
        "warehouse": shown_url(catalog.warehouse),
        "tables": tables,
        "queries": queries,
        "attention": sorted(notes, key=lambda each: each["rank"]),
    }


def cluster(catalog: Catalog) -> dict[str, Any]:
    """List the processes, what they have and what memory they take."""
    placed: list[dict[str, Any]] = []
    dashboard = None
    try:
        service = catalog.service()
        placed, dashboard = records_of(service.status().to_arrow()), service.dashboard
        kind = "ray"
    except UnsupportedError:  # this process serves the tables itself
        kind = "embedded"
    memory: dict[str, dict[str, float]] = {}
    found = catalog.metrics().collected.get(names.WORKER_MEMORY_BYTES.name, {})
    for (use, worker), value in found.items():
        assert not isinstance(value, Distribution)
        memory.setdefault(worker, {})[use] = value
    return {"kind": kind, "dashboard": dashboard, "placed": placed, "memory": memory}


def logs(catalog: Catalog) -> dict[str, Any]:
    """Give the ends of what the processes have written: ``logs``, texts by process."""
    try:
        return {"logs": catalog.service().logs(lines=_LOG_LINES)}
    except UnsupportedError:  # this process serves the tables: what it writes is its caller's
        return {"logs": {}}


def _value(collected: Collected, metric: Metric, *labels: str) -> float | None:
    value = collected.get(metric.name, {}).get(labels)
    assert not isinstance(value, Distribution)
    return value


def _table(name: str, collected: Collected) -> dict[str, Any]:
    lags = {
        consumer: lag
        for (table, consumer), lag in collected.get(
            names.TABLE_CONSUMER_LAG_SNAPSHOTS.name, {}
        ).items()
        if table == name
    }
    return {
        "name": name,
        "rows": _value(collected, names.TABLE_ROWS, name),
        "bytes": _value(collected, names.TABLE_BYTES, name),
        "files": _value(collected, names.TABLE_FILES, name),
        "level0": _value(collected, names.TABLE_LEVEL0_FILES, name),
        "age": _value(collected, names.TABLE_SNAPSHOT_AGE_SECONDS, name),
        "consumers": lags,
        "writers_waiting": sum(
            value
            for (table, *_), value in collected.get(names.TABLE_WRITERS_WAITING.name, {}).items()
            if table == name and not isinstance(value, Distribution)
        ),
    }


def _query(query: Query, collected: Collected) -> dict[str, Any]:
    name, failure, state = query.name, None, "running"
    if not _value(collected, names.QUERY_RUNNING, name):
        try:
            status = query.status()
            state, failure = status["state"], status.get("failure")
        except PkrayError:  # it is being dropped
            state = "stopped"
    states = collected.get(names.QUERY_STATE_BYTES.name, {})
    return {
        "name": name,
        "state": state,
        "failure": failure,
        "freshness": _value(collected, names.QUERY_FRESHNESS_SECONDS, name),
        "epochs": _value(collected, names.QUERY_EPOCHS_TOTAL, name),
        "late": _value(collected, names.QUERY_LATE_ROWS_TOTAL, name),
        "state_bytes": sum(v for (query, _), v in states.items() if query == name),
    }


def _note(rank: int, kind: str, name: str, text: str, failure: str | None = None) -> dict[str, Any]:
    return {"rank": rank, "kind": kind, "name": name, "text": text, "failure": failure}


def _of_queries(queries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in queries:
        fresh, name = each["freshness"] or 0.0, each["name"]
        if each["state"] == "failed":
            why = _cut(str(each["failure"] or "its log says why"))
            yield _note(0, "query", name, "has failed: mend the cause, then resume it", why)
        elif each["state"] == "stopped":
            text = "is stopped: its result stays as it is until you resume it, or drop it"
            yield _note(2, "query", name, text)
        elif fresh > STALE_SECONDS:
            rank = 1 if fresh > OLD_SECONDS else 3
            yield _note(rank, "query", name, f"is {fresh:,.0f} s behind its sources")


def _cut(why: str) -> str:
    return why if len(why) <= _FAILURE_LETTERS else f"{why[:_FAILURE_LETTERS]}…"


def _why(catalog: Catalog, error: PkrayError) -> str:
    return _cut(redact(str(error), catalog.storage_options))


def _unreadable(catalog: Catalog, tables: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Name the tables whose metadata cannot be read: those without a size may be some."""
    for each in tables:
        if each["rows"] is not None:
            continue
        try:
            catalog.load_table(each["name"]).files()
        except TableNotFoundError:  # it is being dropped
            continue
        except PkrayError as error:
            yield _note(0, "table", each["name"], "cannot be read", _why(catalog, error))


def _of_processes(catalog: Catalog) -> Iterator[dict[str, Any]]:
    """Name the processes of the service that do not live, and the parts of tables lost with them.

    Whoever uses a table has its parts opened elsewhere; only what stays so needs people.
    """
    try:
        placed = catalog.service()._processes()
    except UnsupportedError:  # this process serves the tables itself
        return
    for each in placed:
        name = each.name if each.name.startswith(each.kind) else f"{each.kind} {each.name}"
        if each.state == "silent":
            text = "does not answer: it is replaced if it stays silent; its log says why"
            yield _note(1, "cluster", name, text)
        elif each.state == "lost":
            text = "is lost with its worker: the next who uses the table has it opened elsewhere"
            yield _note(1, "cluster", name, text)


def _of_tables(catalog: Catalog, tables: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in tables:
        level0, name = each["level0"] or 0, each["name"]
        if each["writers_waiting"]:
            text = f"has writers that wait for the compaction of {each['writers_waiting']:,.0f} "
            yield _note(1, "table", name, text + "buckets")
        if level0 > MANY_LEVEL0_FILES:
            text = f"has {level0:,.0f} files of level 0 in a bucket: {_behind(catalog, name)}"
            yield _note(2, "table", name, text)
        for consumer, lag in each["consumers"].items():
            if lag > _LONG_LAG:
                text = (
                    f"keeps {lag:,.0f} snapshots, which do not expire, for the consumer {consumer}"
                )
                yield _note(4, "table", name, text)


def _behind(catalog: Catalog, name: str) -> str:
    """Say why compaction is behind."""
    try:
        alone = catalog.load_table(name).schema.core.write_only
    except PkrayError:  # it is being dropped
        alone = False
    return "writers leave that to `pkray compact` (write-only)" if alone else "compaction is behind"


def _of_workers(collected: Collected) -> Iterator[dict[str, Any]]:
    for (worker, *_), value in collected.get(names.WORKER_MACHINE_MEMORY_RATIO.name, {}).items():
        assert not isinstance(value, Distribution)
        if value > MUCH_MEMORY:
            rank = 1 if value > FULL_MEMORY else 3
            text = f"is on a machine of whose memory {value:.0%} are taken"
            yield _note(rank, "cluster", worker, text)
