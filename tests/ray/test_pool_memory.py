"""The states of a query's shares in the workers of a pool keep to what the workers have."""

import pyarrow as pa
import pytest

from tests.ray.conftest import pool_processes, served

pytestmark = pytest.mark.ray

KEYS = 60_000
LONGEST = 240.0
WORKER_MEMORY = 64 << 20


@pytest.fixture
def small(ray_cluster, tmp_path):
    """A catalog whose workers have little memory."""
    with served(tmp_path / "warehouse", pool_workers=2, worker_memory=WORKER_MEMORY) as catalog:
        catalog.service().start()
        yield catalog


@pytest.mark.slow
def test_two_shares_in_a_pool_write_to_files_what_their_workers_have_no_memory_for(small):
    columns = [("k", "INT"), ("v", "STRING")]
    options = {"bucket": "2", "changelog-producer": "input"}
    table = small.create_table("default.t", columns, ["k"], options=options)
    small.sql("SET 'query.parallelism' = '2'")
    query = small.sql("SELECT v, COUNT(*) AS n FROM t GROUP BY v").materialize("default.r")
    for begin in range(0, KEYS, KEYS // 8):
        keys = range(begin, begin + KEYS // 8)
        rows = pa.table({"k": pa.array(keys, pa.int32()), "v": [f"{key:01500d}" for key in keys]})
        snapshot = table.upsert(rows)
        query.wait({"default.t": snapshot.id}, timeout=LONGEST)
    status = query.status()
    assert set(status["processes"]) == pool_processes(small)
    assert len(status["processes"]) == 2
    (groups,) = (each for each in status["nodes"] if each["type"] == "Aggregate")
    assert sum(groups["state_rows"].values()) == KEYS
    assert sum(groups["state_bytes"].values()) < WORKER_MEMORY  # half of both workers'
    assert sum(groups["state_file_bytes"].values()) > 0
    assert query.verify().equal
