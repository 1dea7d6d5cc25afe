"""Processes of other versions of pkray come to a service that runs."""

import pyarrow as pa
import pytest

import pkray
from pkray.errors import ServiceVersionError
from pkray.service import versions
from pkray.service.versions import PROTOCOL, Spoken

pytestmark = pytest.mark.ray

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


@pytest.fixture(params=["pooled", pytest.param("dedicated", marks=pytest.mark.slow)])
def table(request, shared_catalog):
    options = {"bucket": "1", "service.dedicated": str(request.param == "dedicated").lower()}
    table = shared_catalog.create_table("db.t", SCHEMA, ["id"], options=options)
    table.upsert([{"id": 1, "v": 1}])
    yield table
    shared_catalog.drop_table("db.t")


def upserted_by(table, protocol: int, monkeypatch) -> list:
    """Write and look up as a process that speaks a protocol does."""
    monkeypatch.setattr(versions, "spoken", Spoken(protocol, f"0.{protocol}"))
    options = {"owners": 2, "pool_workers": 2}
    warehouse = table.location.url.rsplit("/", 2)[0]
    with pkray.connect(warehouse, runtime="ray", runtime_options=options) as catalog:
        found = catalog.load_table("db.t")
        found.upsert([{"id": 1, "v": protocol}])
        return found.lookup([{"id": 1}])["v"].to_pylist()


def test_neighbours_understand_each_other_and_others_are_told_which_to_upgrade(table, monkeypatch):
    for protocol in (PROTOCOL - 1, PROTOCOL + 1):
        assert upserted_by(table, protocol, monkeypatch) == [protocol]
    with pytest.raises(ServiceVersionError, match="upgrade the caller"):
        upserted_by(table, PROTOCOL - 2, monkeypatch)
    with pytest.raises(ServiceVersionError, match=r"install pkray 0\.\d+ where the service runs"):
        upserted_by(table, PROTOCOL + 2, monkeypatch)
    monkeypatch.undo()
    assert table.lookup([{"id": 1}])["v"].to_pylist() == [PROTOCOL + 1]


@pytest.mark.parametrize("table", ["pooled"], indirect=True)
def test_a_worker_refuses_a_client_that_has_become_too_old_for_it(table, monkeypatch):
    monkeypatch.setattr(versions, "spoken", Spoken(PROTOCOL - 2, "0.0.1"))
    with pytest.raises(ServiceVersionError, match=r"caller \(pkray 0\.0\.1\)"):
        table.lookup([{"id": 1}])
