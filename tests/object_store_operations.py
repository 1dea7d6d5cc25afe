"""Does what users do on an object store, and counts its requests and rounds."""

import contextlib
import random
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import pkray
from pkray.metadata.metadata_cache import metadata
from pkray.relational.continuous.queries.workers.worker import QueryWorker
from pkray.scan.file_set_cache import file_sets
from tests.counted_requests import Counted, RequestCounter

Operation = Callable[[RequestCounter], dict[str, Counted]]
COLUMNS = [("k", "BIGINT"), ("v", "BIGINT")]


def rows(start: int, count: int) -> pa.Table:
    numbers = list(range(start, start + count))
    return pa.table({"k": numbers, "v": [number % 10 for number in numbers]})


@contextlib.contextmanager
def warehouse() -> Iterator[str]:
    """A new object store in memory, of which nothing is kept in caches."""
    forget()
    yield f"memory://{uuid.uuid4().hex}"


def connect(url: str, owners: int = 2) -> pkray.Catalog:
    """Open a warehouse whose tables have so many owners, however many processors there are."""
    return pkray.connect(url, runtime_options={"owners": owners})


def forget() -> None:
    """Know nothing of any table, as a fresh process does."""
    metadata.forget(list(metadata._held))
    file_sets.clear()


def make(catalog: pkray.Catalog, buckets: int, **options: str) -> Any:
    return catalog.create_table("db.t", COLUMNS, ["k"], options={"bucket": str(buckets), **options})


def commits(counter: RequestCounter, buckets: int) -> dict[str, Counted]:
    """Connect, load a table, open a writer, commit rows, commit nothing."""
    taken: dict[str, Counted] = {}
    with warehouse() as url:
        with connect(url, min(2, buckets)) as catalog:
            make(catalog, buckets).upsert(rows(0, 1000))
        forget()
        with counter.counting() as taken["connect and load a table"]:
            catalog = connect(url, min(2, buckets))
            table = catalog.load_table("db.t")
        with catalog:
            with counter.counting() as taken[f"open a writer, {buckets} buckets"]:
                writer = table.open_writer("job")
            with writer:
                writer.upsert(rows(0, 1000))
                writer.commit(1)
                with counter.counting() as taken[f"commit of 1,000 rows, {buckets} buckets"]:
                    writer.upsert(rows(500, 1000))
                    writer.commit(2)
                with counter.counting() as taken[f"empty commit, {buckets} buckets"]:
                    writer.commit(3)
    return taken


def reads(counter: RequestCounter) -> dict[str, Counted]:
    """Look keys up and read, in a fresh process and in a warm one."""
    taken: dict[str, Counted] = {}
    with warehouse() as url:
        with connect(url) as catalog:
            table = make(catalog, 8)
            for start in range(0, 200_000, 50_000):
                table.upsert(rows(start, 50_000))
            table.compact()
        chosen = random.Random(3).sample(range(200_000), 1000)
        forget()
        with connect(url) as catalog:
            table = catalog.load_table("db.t")
            with counter.counting() as taken["first key in a fresh process"]:
                table.lookup([{"k": 77}])
            with counter.counting() as taken["lookup by key, committed, warm"]:
                table.lookup([{"k": 77}])
            with counter.counting() as taken["lookup by key, within a staleness"]:
                table.lookup([{"k": 77}], max_staleness=3600)
        forget()
        with connect(url) as catalog:
            table = catalog.load_table("db.t")
            with counter.counting() as taken["first key in a fresh process, within a staleness"]:
                table.lookup([{"k": 77}], max_staleness=3600)
        forget()
        with connect(url) as catalog:
            table = catalog.load_table("db.t")
            with counter.counting() as taken["first 1,000 random keys"]:
                table.lookup([{"k": key} for key in chosen])
        forget()
        with connect(url) as catalog:
            table = catalog.load_table("db.t")
            with counter.counting() as taken["read by key equality"]:
                assert table.to_arrow(filter="k = 77").num_rows == 1
    return taken


def paged_reads(counter: RequestCounter) -> dict[str, Counted]:
    """Look keys up in a fresh process, where rows lie in pages beside data files."""
    taken: dict[str, Counted] = {}
    with warehouse() as url:
        with connect(url) as catalog:
            table = make(catalog, 8, **{"lookup.pages.enabled": "true"})
            for start in range(0, 200_000, 50_000):
                table.upsert(rows(start, 50_000))
            table.compact(full=True)
        chosen = random.Random(3).sample(range(200_000), 16)
        for name, keys in (("first key in pages", chosen[:1]), ("first 16 keys in pages", chosen)):
            forget()
            with connect(url) as catalog:
                table = catalog.load_table("db.t")
                with counter.counting() as taken[name]:
                    found = table.lookup([{"k": key} for key in keys])
                assert found.num_rows == len(keys)
    return taken


def scans(counter: RequestCounter) -> dict[str, Counted]:
    """Read sixteen buckets whole."""
    taken: dict[str, Counted] = {}
    with warehouse() as url:
        with connect(url) as catalog:
            make(catalog, 16).upsert(rows(0, 10_000))
        forget()
        with connect(url) as catalog:
            table = catalog.load_table("db.t")
            with counter.counting() as taken["scan of 16 buckets"]:
                assert table.to_arrow().num_rows == 10_000
        forget()
        with connect(url) as catalog:
            table = catalog.load_table("db.t")
            with counter.counting() as taken["scan of 16 buckets, batch by batch"]:
                assert sum(batch.num_rows for batch in table.to_batches()) == 10_000
    return taken


def maintenance(counter: RequestCounter) -> dict[str, Counted]:
    """List snapshots and expire them."""
    taken: dict[str, Counted] = {}
    with warehouse() as url, connect(url, 1) as catalog:
        table = make(catalog, 1, **{"num-sorted-run.compaction-trigger": "1000"})
        with table.open_writer() as writer:
            for number in range(52):
                writer.upsert(rows(number, 1))
                writer.commit()
        forget()
        table.snapshots()
        with counter.counting() as taken["snapshots(), again"]:
            assert table.snapshots().num_rows == 52
        with counter.counting() as taken["expire 47 snapshots"]:
            table.expire_snapshots(retain_min=5, retain_max=5)
    return taken


def queries(counter: RequestCounter) -> dict[str, Counted]:
    """Begin a query on 500 rows, then upsert 500 and run its epoch."""
    taken: dict[str, Counted] = {}
    workers: list[QueryWorker] = []
    with warehouse() as url, pytest.MonkeyPatch.context() as patch:
        # Its steps are taken here.
        patch.setattr(QueryWorker, "_work", lambda worker: workers.append(worker))
        with connect(url) as catalog:
            table = make(catalog, 2, **{"changelog-producer": "lookup"})
            table.upsert(rows(0, 500))
            with counter.counting() as taken["a query begins on 500 rows"]:
                relation = catalog.sql("SELECT v, COUNT(*) AS n FROM db.t GROUP BY v")
                relation.materialize("db.totals", primary_key=["v"], options={"bucket": "2"})
                run = workers[0]._open_run()
                assert run.step()
            with counter.counting() as taken["upsert of 500 rows and the epoch of a GROUP BY"]:
                table.upsert(rows(250, 500))
                assert run.step()
            with counter.counting() as taken["a step that finds nothing new"]:
                assert not run.step()
            totals = catalog.load_table("db.totals").to_arrow()
            assert sum(totals["n"].to_pylist()) == 750
            run.close()
    return taken


def everything(counter: RequestCounter) -> dict[str, Counted]:
    """All operations, in order."""
    parts = [commits(counter, 1), commits(counter, 16), reads(counter)]
    parts += [paged_reads(counter), scans(counter), maintenance(counter), queries(counter)]
    return {name: counted for part in parts for name, counted in part.items()}
