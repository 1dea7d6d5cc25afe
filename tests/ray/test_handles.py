"""What callers learn when an actor or the cluster is gone; no cluster is started."""

import socket

import pytest

import pkray
from pkray.errors import ServiceUnavailableError, TableNotFoundError, TableReplacedError


@pytest.fixture
def dead_owner(monkeypatch, tmp_path):
    """The client of an actor that was killed, of a table of a catalog."""
    from ray.exceptions import RayActorError

    from pkray.metadata.schemas import TableIdentity
    from pkray.service.call_limits import DEFAULT_LIMITS
    from pkray.service.calls import OwnerClient
    from pkray.service.ray import callee, handle

    class Method:
        def remote(self, *args):
            return None

    class Actor:
        ping = Method()
        sign_of_life = Method()

    def get(ref, timeout):
        raise RayActorError

    monkeypatch.setattr(callee.ray, "get", get)
    with pkray.connect(tmp_path) as catalog:
        table = catalog.create_table("db.t", [("id", "BIGINT")], ["id"])
        look = TableIdentity.at(table.location).check_same_table
        dead = handle.RayHandle(Actor(), "owner", DEFAULT_LIMITS, look, patience_seconds=0)
        yield OwnerClient(dead), catalog


def test_an_actor_of_a_table_that_is_there_may_answer_later(dead_owner):
    owner, _ = dead_owner
    with pytest.raises(ServiceUnavailableError, match="owner does not answer"):
        owner.ping()


@pytest.mark.parametrize("again", [False, True])
def test_an_actor_of_a_table_that_was_dropped_will_not(dead_owner, again):
    owner, catalog = dead_owner
    catalog.drop_table("db.t")
    if again:
        catalog.create_table("db.t", [("id", "BIGINT")], ["id"])
    with pytest.raises(TableReplacedError if again else TableNotFoundError, match=r"db\.t"):
        owner.ping()


def test_a_cluster_that_does_not_answer_is_named_at_once():
    from pkray.service.ray.cluster import join

    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(ServiceUnavailableError, match=f"'{address}'.*ray start --head"):
        join(address)
