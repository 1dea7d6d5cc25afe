"""Sums up all tables and queries, and says what needs attention: the first page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pkray.api.catalog import Catalog
from pkray.errors import UnsupportedError
from pkray.inspection.cells import records_of
from pkray.metrics import names
from pkray.metrics.collection import Collected, Distribution
from pkray.metrics.metric import Metric
from pkray.storage.secrets import shown_url

STALE_SECONDS, OLD_SECONDS = 5.0, 60.0
"""Say from when on a query's result is behind, and far behind: as the alerts have it."""
MANY_LEVEL0_FILES = 10
"""In a bucket: merging them at each read costs more than compacting them."""
_LOG_LINES = 100
_LONG_LAG = 1000
"""Snapshots that a consumer keeps from expiring."""


def home(catalog: Catalog) -> dict[str, Any]:
    """List tables and queries with their sizes and health, and what needs attention first."""
    collected = catalog.metrics().collected
    tables = [_table(name, collected) for name in catalog.list_tables()]
    queries = [_query(each.name, collected) for each in catalog.queries()]
    return {
        "warehouse": shown_url(catalog.warehouse),
        "tables": tables,
        "queries": queries,
        "attention": sorted(_attention(tables, queries), key=lambda each: each["rank"]),
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
    }


def _query(name: str, collected: Collected) -> dict[str, Any]:
    failed = _value(collected, names.QUERY_FAILED, name)
    running = _value(collected, names.QUERY_RUNNING, name)
    states = collected.get(names.QUERY_STATE_BYTES.name, {})
    return {
        "name": name,
        "state": "failed" if failed else "running" if running else "stopped",
        "freshness": _value(collected, names.QUERY_FRESHNESS_SECONDS, name),
        "epochs": _value(collected, names.QUERY_EPOCHS_TOTAL, name),
        "late": _value(collected, names.QUERY_LATE_ROWS_TOTAL, name),
        "state_bytes": sum(v for (query, _), v in states.items() if query == name),
    }


def _attention(
    tables: list[dict[str, Any]], queries: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    def note(rank: int, kind: str, name: str, text: str) -> dict[str, Any]:
        return {"rank": rank, "kind": kind, "name": name, "text": text}

    for each in queries:
        fresh = each["freshness"] or 0.0
        if each["state"] == "failed":
            yield note(0, "query", each["name"], "has failed: mend the cause, then resume it")
        elif fresh > OLD_SECONDS:
            yield note(1, "query", each["name"], f"is {fresh:,.0f} s behind its sources")
        elif fresh > STALE_SECONDS:
            yield note(3, "query", each["name"], f"is {fresh:,.0f} s behind its sources")
    for each in tables:
        level0 = each["level0"] or 0
        if level0 > MANY_LEVEL0_FILES:
            text = f"has {level0:,.0f} files of level 0 in a bucket: compaction is behind"
            yield note(2, "table", each["name"], text)
        for consumer, lag in each["consumers"].items():
            if lag > _LONG_LAG:
                text = f"keeps {lag:,.0f} snapshots for the consumer {consumer}"
                yield note(4, "table", each["name"], text)
