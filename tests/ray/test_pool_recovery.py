"""How soon all goes on when a worker of a pool is lost that hosts tables and queries."""

import os
import signal
import time
from contextlib import suppress

import pytest

from tests.ray.conftest import each, served

pytestmark = pytest.mark.ray

THINGS = 10
"""Tables, and queries that read all of them."""
SOON = {signal.SIGKILL: 20.0, signal.SIGSTOP: 40.0}
"""Seconds beyond what a change takes otherwise: busy machines start processes slowly."""
LONGEST = 240.0


@pytest.fixture(scope="module")
def catalog(ray_cluster, tmp_path_factory):
    with served(tmp_path_factory.mktemp("warehouse"), pool_workers=3) as catalog:
        catalog.service().start()
        yield catalog


@pytest.fixture(scope="module")
def tables(catalog):
    options = {"bucket": "2", "changelog-producer": "lookup"}
    columns = [("k", "INT"), ("v", "INT")]
    names = [f"default.t{number}" for number in range(THINGS)]
    return [catalog.create_table(name, columns, ["k"], options=options) for name in names]


@pytest.fixture(scope="module")
def queries(catalog, tables):
    """Queries that have read all tables, which have rows."""
    read = " UNION ALL ".join(f"SELECT v FROM t{number}" for number in range(THINGS))
    sql = f"SELECT v % 3 AS side, COUNT(*) AS n FROM ({read}) AS x GROUP BY v % 3"
    names = [f"default.r{number}" for number in range(THINGS)]
    started = each(lambda name: catalog.sql(sql).materialize(name), names)
    seconds_of_a_change(tables, started, 0)
    return started


def seconds_of_a_change(tables, queries, value: int) -> float:
    """Change all tables; wait until all queries have read that."""

    def change(table) -> int:
        with table.open_writer() as writer:
            writer.upsert([{"k": key, "v": value + key} for key in range(20)])
            return writer.commit().id

    begun = time.monotonic()
    ids = dict(zip((table.name for table in tables), each(change, tables), strict=True))
    each(lambda query: query.wait(ids, timeout=LONGEST), queries)
    return time.monotonic() - begun


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_change_of_all_tables_is_in_all_results_soon_after_a_worker_is_lost(
    tables, queries, sent
):
    usual = seconds_of_a_change(tables, queries, 1000 * sent)
    lost = queries[0].status()["process"]
    os.kill(lost, sent)
    try:
        seconds = seconds_of_a_change(tables, queries, 2000 * sent)
    finally:
        with suppress(ProcessLookupError):
            os.kill(lost, signal.SIGCONT)
    assert all(query.verify().equal for query in queries)
    assert seconds < SOON[sent] + 5 * usual
