"""A table that another process drops and creates anew, under owners that live as Ray actors."""

import time

import pytest

import pkray
from pkray.errors import TableReplacedError

pytestmark = pytest.mark.ray

OLD = [("id", "BIGINT"), ("v", "INT")]
NEW = [("id", "BIGINT"), ("w", "STRING")]
REMEDY = r"table db\.t was dropped, and another one created .* load it again"


def test_whoever_has_the_old_table_open_is_told_and_the_new_one_has_owners(ray_catalog):
    table = ray_catalog.create_table("db.t", OLD, ["id"], options={"bucket": "2"})
    with table.open_writer("job") as writer:
        writer.upsert([{"id": n, "v": n} for n in range(100)])
        writer.commit(1)
    assert table.lookup([{"id": 5}])["v"].to_pylist() == [5]
    with table.open_writer("late") as writer:
        writer.upsert([{"id": 7, "v": 700}])
        with pkray.connect(ray_catalog.warehouse) as theirs:
            theirs.drop_table("db.t")
            created = theirs.create_table("db.t", NEW, ["id"], options={"bucket": "3"})
            with created.open_writer("other") as other:
                other.upsert([{"id": n, "w": f"new {n}"} for n in range(20)])
                other.commit(1)
        time.sleep(1.1)  # owners look for what others did once a second
        for use in (
            writer.commit,
            lambda: table.lookup([{"id": 5}]),
            lambda: table.lookup([{"id": 5}], visibility="committed"),
            table.to_arrow,
            table.compact,
        ):
            with pytest.raises(TableReplacedError, match=REMEDY):
                use()
    fresh = ray_catalog.load_table("db.t")
    assert sorted(fresh.to_arrow()["id"].to_pylist()) == list(range(20))
    with fresh.open_writer("job") as writer:
        writer.upsert([{"id": 7, "w": "newer"}, {"id": 20, "w": "first"}])
        writer.commit(2)
    found = fresh.lookup([{"id": 7}, {"id": 6}, {"id": 20}, {"id": 99}])
    assert found["w"].to_pylist() == ["newer", "new 6", "first"]
