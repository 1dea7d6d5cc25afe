"""A table whose ``service.dedicated`` changes while it is used has one service at any time."""

import pyarrow as pa
import pytest

import pkray
from pkray.errors import ServiceMovedError
from tests.integration.readers import rows_of

pytestmark = pytest.mark.ray

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
KEYS = pa.table({"id": [1]})


def rows(value: int) -> pa.Table:
    return pa.table({"id": [1], "v": [value]}, schema=SCHEMA)


def committed(table, value: int) -> None:
    table.upsert(rows(value))


def own_actors(table) -> list[str]:
    from ray.util import list_named_actors

    prefix = f"pkray-{table.location.fingerprint}-"
    named = [actor["name"] for actor in list_named_actors(all_namespaces=True)]
    return [name for name in named if name.startswith(prefix)]


def pooled_parts(table) -> int:
    import ray

    from pkray.service.ray.pool import pool_name

    keeper = ray.get_actor(f"{pool_name(table.location)}-keeper", "pkray")
    return len(ray.get(keeper.release.remote(table.location.fingerprint)))


@pytest.mark.parametrize("before", ["false", "true"])
@pytest.mark.slow
def test_whoever_opens_one_kind_ends_the_other(ray_catalog, before):
    options = {"bucket": "2", "service.dedicated": before}
    table = ray_catalog.create_table("db.t", SCHEMA, ["id"], options=options)
    committed(table, 1)
    after = str(before == "false").lower()
    with pkray.connect(
        ray_catalog.warehouse, runtime="ray", runtime_options={"owners": 2, "pool_workers": 2}
    ) as other:
        old = other.load_table("db.t")
        with old.open_writer("job") as writer:
            writer.upsert(rows(2))
            table.alter.set_options({"service.dedicated": after})
            table = ray_catalog.load_table("db.t")
            committed(table, 3)
            assert table.lookup(KEYS)["v"].to_pylist() == [3]
            with pytest.raises(ServiceMovedError, match=r"db\.t.*load it again"):
                writer.commit()
            with pytest.raises(ServiceMovedError):
                old.lookup(KEYS)
        found = other.load_table("db.t")
        with found.open_writer("job") as writer:
            writer.upsert(rows(4))
            assert table.lookup(KEYS)["v"].to_pylist() == [4]  # one service, seen by both
            writer.commit()
        assert rows_of(table.to_arrow(), ["id"]) == [(1, 4)]
    assert len(own_actors(table)) == (3 if after == "true" else 0)
    if after == "true":
        assert pooled_parts(table) == 0
