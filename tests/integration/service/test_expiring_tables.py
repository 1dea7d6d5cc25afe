"""Tables whose rows expire, by the real clock."""

import time

import pytest

import pkray

COLUMNS = [("id", "INT"), ("v", "INT"), ("at", "BIGINT")]
KEYS = [{"id": 1}, {"id": 2}, {"id": 3}]


@pytest.fixture
def catalog(tmp_path):
    with pkray.connect(str(tmp_path / "w"), runtime_options={"owners": 1}) as catalog:
        yield catalog


def make(catalog, **options):
    expiry = {"record-level.expire-time": "1 h", "record-level.time-field": "at"}
    return catalog.create_table("db.t", COLUMNS, ["id"], options={**expiry, **options})


def write(table, *rows):
    table.upsert([{"id": i, "v": v, "at": at} for i, v, at in rows])


def everywhere(table):
    """The keys there are, which reads and lookups agree on."""
    seen = [
        sorted(table.to_arrow()["id"].to_pylist()),
        table.lookup(KEYS)["id"].to_pylist(),
        table.lookup(KEYS, visibility="committed")["id"].to_pylist(),
    ]
    assert seen[0] == seen[1] == seen[2]
    return seen[0]


@pytest.mark.parametrize("how", ["compact", "compact_dedicated"])
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
def test_a_full_compaction_drops_what_is_old(catalog, engine, how):
    table = make(catalog, **{"merge-engine": engine})
    now = int(time.time())
    write(table, (1, 1, now - 7200), (2, 2, now))
    write(table, (3, 3, None))
    getattr(table, how)(full=True)
    assert everywhere(table) == [2, 3]


def test_rows_of_a_table_that_is_compacted_already(catalog):
    table = make(catalog, **{"record-level.expire-time": "1000 d"})
    now = int(time.time())
    write(table, (1, 1, (now - 7200) * 1000), (2, 2, now * 1000))
    table.compact(full=True)
    assert everywhere(table) == [1, 2]
    table.alter.set_options({"record-level.expire-time": "1 h"})
    table.compact(full=True)
    assert everywhere(table) == [2]
    assert table.compact(full=True) is None


def test_a_time_column_that_was_renamed(catalog):
    table = make(catalog, **{"record-level.expire-time": "1000 d"})
    now = int(time.time())
    write(table, (1, 1, now - 7200), (2, 2, now))
    table.compact(full=True)
    table.alter.rename_column("at", "seen")
    table.alter.set_options({"record-level.expire-time": "1 h"})
    table.compact(full=True)
    assert everywhere(table) == [2]
