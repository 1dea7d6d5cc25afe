"""The metrics of a warehouse, as those who watch over it hold them."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pkray import relational
from pkray.api.service import Service
from pkray.clock import now_millis
from pkray.errors import PkrayError
from pkray.format.snapshot import Snapshot
from pkray.metadata.consumers import ConsumerStore
from pkray.metadata.live import data_manifests
from pkray.metrics import collection, exposition, names
from pkray.metrics.collection import Collected, Reading
from pkray.metrics.names import METRICS
from pkray.metrics.registry import REGISTRY
from pkray.relational.catalog import Catalog
from pkray.scan.file_set_cache import file_sets
from pkray.service.administration import Administered
from pkray.shown import html_table
from pkray.table.table import Table

_log = logging.getLogger(__name__)

_FACTS_SECONDS = 10.0
"""Bounds the age of what was read of the warehouse: several who scrape it read it once."""
_GOING = ("running", "starting")
EMBEDDED, CLIENT = "embedded", "client"
"""Name this process in the label ``worker``: it serves the tables, or others do."""
_COLUMNS = (
    ("name", pa.string()),
    ("kind", pa.string()),
    ("unit", pa.string()),
    ("labels", pa.map_(pa.string(), pa.string())),
    ("value", pa.float64()),
    ("count", pa.int64()),
    ("sum", pa.float64()),
)


class Metrics:
    """The metrics of a warehouse at one moment; made by ``Catalog.metrics``.

    Attributes:
        collected: values by the name of a metric and the values of its labels.
    """

    def __init__(self, collected: Collected) -> None:
        self.collected = collected

    def to_text(self) -> str:
        """Write them as Prometheus reads them."""
        return exposition.to_text(self.collected)

    def to_records(self) -> list[dict[str, Any]]:
        """Make a record of each series: ``name``, ``kind``, ``unit``, ``labels`` and ``value``; of
        a histogram ``buckets``, ``sum`` and ``count``."""
        return exposition.to_records(self.collected)

    def to_arrow(self) -> pa.Table:
        """Make a table: ``name``, ``kind``, ``unit``, ``labels``, ``value``, ``count``, ``sum``."""
        rows = [{**each, "labels": [*each["labels"].items()]} for each in self.to_records()]
        return pa.Table.from_pylist(rows, schema=pa.schema(_COLUMNS))

    def __repr__(self) -> str:
        count = sum(map(len, self.collected.values()))
        return f"Metrics({len(self.collected)} names, {count} series)"

    def _repr_html_(self) -> str:
        rows = [
            (each["name"], ", ".join(map("=".join, each["labels"].items())), _shown(each))
            for each in self.to_records()
        ]
        return html_table(repr(self), rows, ("name", "labels", "value"))


def _shown(record: Mapping[str, Any]) -> str:
    if "value" in record:
        return f"{record['value']:,.6g}"
    return f"{record['count']:,} in {record['sum']:,.6g} {record['unit']}"


@dataclass(frozen=True)
class _Files:
    """The data files of a snapshot, counted.

    Args:
        level0_files: of the bucket that has most.
        level0_bytes: of all buckets.
        levels: number of the bucket, level, files and bytes: int64, a row each.
    """

    snapshot: Snapshot
    rows: int
    bytes: int
    files: int
    level0_files: int
    level0_bytes: int
    levels: np.ndarray


class Measured:
    """Measures a warehouse. Thread-safe.

    What does not change with a snapshot is read once for each.
    """

    def __init__(self, catalog: Catalog, clock: Callable[[], float] = time.monotonic) -> None:
        self._catalog = catalog
        self._clock = clock
        self._tables: dict[str, Table] = {}
        self._files: dict[str, _Files] = {}
        self._facts: tuple[float, Collected] = (-_FACTS_SECONDS, {})
        self._lock = threading.Lock()

    def metrics(self, by_bucket: bool = False) -> Metrics:
        """Measure now.

        Args:
            by_bucket: also what has a series for each bucket.
        """
        with self._lock:
            at, facts = self._facts
            if self._clock() - at >= _FACTS_SECONDS:
                facts = collection.of([*self._of_tables(), *self._of_queries()])
                self._facts = self._clock(), facts
            of_buckets = collection.of(self._of_buckets()) if by_bucket else {}
        found = {**facts, **of_buckets, **self._kept()}
        shown = {n: each for n, each in found.items() if by_bucket or not METRICS[n].is_of_bucket}
        return Metrics(shown)

    def _of_buckets(self) -> Iterator[Reading]:
        for name, files in self._files.items():
            for bucket, level, count, size in files.levels.tolist():
                yield names.BUCKET_LEVEL_FILES, (name, str(bucket), str(level)), count
                backlog = 0 if level else size
                yield names.BUCKET_COMPACTION_BACKLOG_BYTES, (name, str(bucket)), backlog

    def _kept(self) -> Collected:
        """Collect what processes count."""
        queries = [each.name for each in relational.list_queries(self._catalog, {})]
        is_gone = collection.unless_there(self._catalog.list_tables(), queries)
        itself = collection.without(REGISTRY.collect(self._catalog.warehouse), is_gone)
        if isinstance(self._catalog.runtime, Administered):
            others = Service(self._catalog)._collected()
            return collection.of_workers({CLIENT: itself, **others})
        return collection.of_workers({EMBEDDED: itself})

    def _of_tables(self) -> Iterator[Reading]:
        there = self._catalog.list_tables()
        for gone in self._tables.keys() - set(there):
            self._forget(gone)
        for name in there:
            try:
                yield from self._of_table(name)
            except PkrayError as error:  # one that is damaged, or being dropped
                self._forget(name)
                _log.debug("table %s has no metrics: %s", name, error)

    def _forget(self, name: str) -> None:
        self._tables.pop(name, None)
        self._files.pop(name, None)

    def _of_table(self, name: str) -> Iterator[Reading]:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self._catalog.load_table(name)
        snapshot = table.latest_snapshot()
        found = self._files.get(name)
        if snapshot is None:
            return
        if found is None or found.snapshot != snapshot:
            found = self._files[name] = _counted(table, snapshot)
        label = (name,)
        yield names.TABLE_ROWS, label, found.rows
        yield names.TABLE_BYTES, label, found.bytes
        yield names.TABLE_FILES, label, found.files
        yield names.TABLE_LEVEL0_FILES, label, found.level0_files
        yield names.TABLE_COMPACTION_BACKLOG_BYTES, label, found.level0_bytes
        age = max(now_millis() - snapshot.time_millis, 0) / 1000
        yield names.TABLE_SNAPSHOT_AGE_SECONDS, label, age
        for consumer in ConsumerStore(table._store).list():
            lag = max(snapshot.id + 1 - consumer.next_snapshot, 0)
            yield names.TABLE_CONSUMER_LAG_SNAPSHOTS, (name, consumer.name), lag

    def _of_queries(self) -> Iterator[Reading]:
        for query in relational.list_queries(self._catalog, {}):
            try:
                yield from _of_query(query.name, query._watched.progress())
            except PkrayError as error:  # one that is being dropped
                _log.debug("query %s has no metrics: %s", query.name, error)


def _counted(table: Table, snapshot: Snapshot) -> _Files:
    store = table._store
    found = file_sets.read(store, data_manifests(store, snapshot))
    sizes, in_level0 = found.numbers("size"), found.numbers("level") == 0
    places = np.stack([found.numbers("bucket"), found.numbers("level")])
    levels, level_of, files = np.unique(places, axis=1, return_inverse=True, return_counts=True)
    level_bytes = np.zeros(len(files), np.int64)
    np.add.at(level_bytes, level_of.reshape(-1), sizes)
    buckets = np.stack([found.partitions[0], found.numbers("bucket")])[:, in_level0]
    _, counts = np.unique(buckets, axis=1, return_counts=True)
    return _Files(
        snapshot,
        int(found.numbers("rows").sum()),
        int(sizes.sum()),
        len(found),
        int(counts.max(initial=0)),
        int(sizes[in_level0].sum()),
        np.vstack([levels, files, level_bytes]).T,
    )


def _of_query(name: str, status: Mapping[str, Any]) -> Iterator[Reading]:
    is_going = status["state"] in _GOING
    yield names.QUERY_RUNNING, (name,), is_going
    yield names.QUERY_FAILED, (name,), status["state"] == "failed"
    yield names.QUERY_EPOCHS_TOTAL, (name,), status["epoch"] + 1
    yield names.QUERY_LATE_ROWS_TOTAL, (name,), status.get("late", 0)
    lag = status.get("lag", {}) if is_going else {}
    for source, behind in lag.items():
        yield names.QUERY_LAG_SNAPSHOTS, (name, source), behind["snapshots"]
    if lag:
        freshness = max(behind["seconds"] for behind in lag.values())
        yield names.QUERY_FRESHNESS_SECONDS, (name,), freshness
    busy = status.get("busy", {}) if is_going else {}
    for node in status["nodes"]:
        number = str(node["id"])
        operator = (name, f"{number} {node['type']}")
        if node.get("state_rows"):
            size = sum(node["state_bytes"].values()) + sum(node["state_file_bytes"].values())
            yield names.QUERY_STATE_BYTES, operator, size
            yield names.QUERY_STATE_ROWS, operator, sum(node["state_rows"].values())
        if number in busy:
            yield names.QUERY_OPERATOR_BUSY_RATIO, operator, busy[number]
