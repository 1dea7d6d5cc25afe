"""Actors stopped with SIGSTOP: nobody waits for ever, and a replacement goes on."""

import time

import pyarrow as pa
import pytest

import pkray
from pkray.errors import ServiceUnavailableError
from tests.integration.readers import rows_of
from tests.ray.commits import appended
from tests.ray.conftest import end_pool
from tests.ray.signals import stopped

pytestmark = pytest.mark.ray

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


@pytest.fixture(
    scope="module", params=["pooled", pytest.param("dedicated", marks=pytest.mark.slow)]
)
def shared(request, ray_cluster, tmp_path_factory):
    """A table of two owners, whose callers do not wait long."""
    options = {"owners": 2, "pool_workers": 2, "call_timeout": 2, "lookup_timeout": 1}
    warehouse = tmp_path_factory.mktemp("warehouse")
    with pkray.connect(warehouse, runtime="ray", runtime_options=options) as catalog:
        dedicated = str(request.param == "dedicated").lower()
        of_table = {"bucket": "2", "service.dedicated": dedicated}
        yield catalog.create_table("db.t", SCHEMA, ["id"], options=of_table)
        catalog.drop_table("db.t")
        end_pool(catalog)


@pytest.fixture
def table(shared, job):
    """The table of all tests here, with the first commit of the job."""
    shared.upsert(rows(1), commit_user=job, commit_identifier=1)
    return shared


def rows(value: int) -> pa.Table:
    return pa.table({"id": range(100), "v": [value] * 100}, schema=SCHEMA)


def test_a_lookup_names_the_owner_that_is_stopped(table):
    with stopped(table.service_stats()["owners"][1]["pid"]):
        began = time.monotonic()
        with pytest.raises(ServiceUnavailableError, match=r"owner 1 of table db\.t.* within 1 s"):
            table.lookup(rows(1).select(["id"]))
        assert time.monotonic() - began < 30
    assert table.lookup(rows(1).select(["id"])).num_rows == 100


def test_an_owner_that_is_stopped_is_replaced_and_its_rows_are_committed_once(table, job):
    before = table.service_stats()["owners"]
    with table.open_writer(job) as writer:
        writer.upsert(rows(2))
        with stopped(before[1]["pid"]):
            writer.commit(commit_identifier=2)
            assert table.service_stats()["owners"][1]["pid"] != before[1]["pid"]
        writer.commit(commit_identifier=2)
    assert rows_of(table.to_arrow(), ["id"]) == [(i, 2) for i in range(100)]
    assert appended(table, job) == [1, 2]
    assert table.lookup([{"id": 7}]).to_pylist() == [{"id": 7, "v": 2}]


def test_a_coordinator_that_is_stopped_is_replaced(table, job):
    with table.open_writer(job) as writer:
        writer.upsert(rows(2))
        with stopped(table.service_stats()["coordinator"][0]["pid"]):
            writer.commit(commit_identifier=2)
        writer.upsert(rows(3))
        writer.commit(commit_identifier=3)
    assert rows_of(table.to_arrow(), ["id"]) == [(i, 3) for i in range(100)]
    assert appended(table, job) == [1, 2, 3]
