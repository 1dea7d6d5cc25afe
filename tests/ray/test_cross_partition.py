"""Keys that cross partitions, with the assigner as a Ray actor that is killed, and with tasks."""

import pyarrow as pa
import pytest

import pkray
from tests.integration.readers import rows_of
from tests.ray.signals import kill

pytestmark = pytest.mark.ray

SCHEMA = pa.schema([("id", pa.int64()), ("dt", pa.string()), ("v", pa.int64())])


def rows(entries: dict) -> pa.Table:
    listed = [{"id": key, "dt": dt, "v": v} for key, (dt, v) in entries.items()]
    return pa.Table.from_pylist(listed, SCHEMA)


def content(table: pa.Table) -> dict:
    found = rows_of(table.select(SCHEMA.names), ["id"])
    assert len({key for key, *_ in found}) == len(found), "a key is there twice"
    return {key: (dt, v) for key, dt, v in found}


def kill_owners(table) -> None:
    for owner in table.service_stats()["owners"]:
        kill(owner["pid"])


@pytest.fixture
def catalog(ray_cluster, tmp_path):
    path = str(tmp_path / "warehouse")
    with pkray.connect(path, runtime="ray", runtime_options={"owners": 2}) as catalog:
        yield catalog
        catalog.drop_table("db.t")


@pytest.mark.slow
def test_keys_move_while_owners_are_killed_and_tasks_fail(catalog):
    import ray

    table = catalog.create_table(
        "db.t", SCHEMA, ["id"], ["dt"], {"bucket": "-1", "dynamic-bucket.target-row-num": "50"}
    )
    model = dict.fromkeys(range(200), ("a", 1))
    with table.open_writer("job") as writer:
        writer.upsert(rows(model))
        writer.commit(1)
        writer.upsert(rows(dict.fromkeys(range(150, 250), ("b", 2))))
        kill_owners(table)
        writer.upsert(rows(dict.fromkeys(range(100, 200), ("c", 3))))
        writer.commit(2)
    model |= dict.fromkeys(range(150, 250), ("b", 2))
    model |= dict.fromkeys(range(100, 200), ("c", 3))
    assert content(table.to_arrow()) == model

    session = table.open_push("tasks", 1)
    target = session.target()

    @ray.remote
    def push(source: int, attempt: int, entries: dict):
        pusher = target.open(source, attempt)
        pusher.push(rows(entries))
        return pusher.finish()

    first = dict.fromkeys(range(50), ("d", 4))
    second = dict.fromkeys(range(25, 75), ("e", 5))
    ray.get(push.remote(0, 0, dict.fromkeys(range(300), ("f", 6))))
    reports = ray.get([push.remote(1, 0, second), push.remote(0, 1, first)])
    session.commit(reports)
    model |= first | second
    assert content(table.to_arrow()) == model

    keys = pa.table({"id": list(range(300))})
    for visibility in ("latest", "committed"):
        assert content(table.lookup(keys, visibility=visibility)) == model
