"""Copies that lookups make on the local disk, and the options by which they go again."""

import time
from pathlib import Path

import pyarrow as pa
import pytest

import pkray
from pkray.service.owner.lookups import OwnerLookups
from tests.waiting import wait_until

ROWS = 40_000
BUCKETS = 4
RETENTION = {"lookup.cache-file-retention": "300 ms"}


@pytest.fixture
def looked_up(tmp_path: Path):
    """A table with these options, all of whose buckets were asked for rows, and its local disk."""
    catalogs = []

    def make(**options: str) -> tuple[pkray.Table, Path]:
        local = tmp_path / "local"
        options["bucket"] = str(BUCKETS)
        columns = pa.schema([("k", pa.int64()), ("v", pa.string())])
        with pkray.connect(tmp_path / "warehouse") as catalog:
            table = catalog.create_table("db.t", columns, ["k"], options=options)
            texts = [f"{key * 7919:020}" for key in range(ROWS)]
            with table.open_writer() as writer:
                writer.upsert(pa.table([range(ROWS), texts], names=columns.names))
                writer.commit(full_compact=True)
        runtime = {"local_directory": local, "owners": 1}
        catalogs.append(pkray.connect(tmp_path / "warehouse", runtime_options=runtime))
        table = catalogs[-1].load_table("db.t")
        look_up(table)
        return table, local

    yield make
    for catalog in catalogs:
        catalog.close()


def look_up(table: pkray.Table) -> None:
    wanted = list(range(0, ROWS, 7))
    found = table.lookup(pa.table({"k": wanted}))
    assert found["k"].to_pylist() == wanted


def disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.sst"))


def stats(table: pkray.Table):
    (owner,) = table.service_stats()["owners"]
    return owner["lookup"]


def test_copies_stay_as_long_as_nothing_says_otherwise(looked_up):
    table, local = looked_up()
    assert stats(table).files == BUCKETS
    assert disk(local) > 100_000
    look_up(table)
    assert stats(table).builds == BUCKETS


def test_copies_that_nobody_uses_go_by_themselves(looked_up):
    table, local = looked_up(**RETENTION)
    assert stats(table).builds >= BUCKETS
    wait_until(lambda: stats(table).files == 0)
    wait_until(lambda: disk(local) < 10_000)
    look_up(table)


def test_copies_go_though_nobody_thought_of_them_while_they_were_made(looked_up, monkeypatch):
    answer = OwnerLookups.answer

    def answer_late(self, asked):
        time.sleep(0.8)
        return answer(self, asked)

    monkeypatch.setattr(OwnerLookups, "answer", answer_late)
    table, _ = looked_up(**RETENTION)
    assert stats(table).builds >= BUCKETS
    wait_until(lambda: stats(table).files == 0)


def test_copies_take_no_more_disk_than_they_may(looked_up):
    table, local = looked_up(**{"lookup.cache-max-disk-size": "400 kb"})
    for _ in range(3):
        look_up(table)
        assert stats(table).disk_bytes <= 400 << 10
        assert disk(local) <= 400 << 10
    assert stats(table).evictions


def test_indexes_of_copies_take_no_more_memory_than_they_may(looked_up):
    table, _ = looked_up(**{"lookup.cache-max-memory-size": "4 kb"})
    for _ in range(3):
        look_up(table)
        assert stats(table).memory_bytes <= 4 << 10
    assert stats(table).evictions
