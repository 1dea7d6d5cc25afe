"""Lookups in the pages that lie beside data files."""

import datetime
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pkray
from pkray.errors import StorageError
from pkray.format.data_file import COMPACT_SOURCE
from pkray.lsm.data_files import DataFileStore
from pkray.storage.row_pages import SUFFIX, RowPages
from tests.integration.readers import read_with_rust, rows_of

ROWS = 12_000
PAGES = {"lookup.pages.enabled": "true", "bucket": "2"}
COLUMNS = [("k", "BIGINT NOT NULL"), ("v", "STRING"), ("n", "INT")]


class Warehouse:
    """A table whose rows lie in pages too, and fresh processes that look into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened: list[pkray.Catalog] = []

    def make(self, count: int = ROWS, **options: str) -> pkray.Table:
        table = self.fresh(make=PAGES | options)
        table.upsert(rows(0, count, "old"))
        table.upsert(rows(0, count, "new", step=3))
        table.delete([{"k": 2 * number} for number in range(0, count, 50)])
        table.compact(full=True)
        return table

    def fresh(self, make: dict[str, str] | None = None) -> pkray.Table:
        """The table as a process that begins has it."""
        catalog = pkray.connect(self.folder, runtime_options={"owners": 1})
        self.opened.append(catalog)
        if make is not None:
            return catalog.create_table("db.t", COLUMNS, ["k"], options=make)
        return catalog.load_table("db.t")

    def pages(self) -> list[Path]:
        return sorted(self.folder.rglob(f"*{SUFFIX}"))

    def data(self) -> list[Path]:
        return sorted(self.folder.rglob("data-*.parquet"))


@pytest.fixture
def warehouse(tmp_path):
    found = Warehouse(tmp_path / "warehouse")
    yield found
    for catalog in found.opened:
        catalog.close()


def rows(start: int, count: int, text: str, step: int = 1) -> pa.Table:
    numbers = np.arange(start, start + count, step)
    texts = [f"{text} {number * 7919}" for number in numbers.tolist()]
    columns = [pa.array(numbers * 2), texts, pa.array(numbers.astype(np.int32))]
    return pa.table(columns, names=["k", "v", "n"])


def stats(table: pkray.Table):
    (owner,) = table.service_stats()["owners"]
    return owner["lookup"]


def keys_of(table: pkray.Table, seed: int, count: int) -> list[int]:
    """Keys that are there, that were deleted, and that were never there."""
    return np.random.default_rng(seed).integers(-10, 2 * ROWS + 10, count).tolist()


def check(table: pkray.Table, seed: int = 1, count: int = 6, **arguments: object) -> None:
    """Look keys up, and compare with what a read gives."""
    asked = keys_of(table, seed, count)
    found = table.lookup([{"k": key} for key in asked], visibility="committed", **arguments)
    every = {row["k"]: row for row in table.to_arrow(**arguments).to_pylist()}
    assert found.to_pylist() == [every[key] for key in asked if key in every]


def test_a_fresh_process_finds_keys_in_pages_and_copies_nothing(warehouse):
    warehouse.make()
    table = warehouse.fresh()
    check(table)
    found = stats(table)
    assert (found.builds, found.scans) == (0, 0)
    assert found.page_reads > 0
    assert found.memory_bytes > 0


def test_each_key_is_found_as_a_read_finds_it(warehouse):
    warehouse.make()
    for seed in range(12):
        check(warehouse.fresh(), seed, 1 + seed)


def test_no_pages_are_written_unless_the_option_says_so(warehouse):
    table = warehouse.make(**{"lookup.pages.enabled": "false"})
    assert warehouse.pages() == []
    check(table)


def test_a_large_flush_has_pages_as_it_may_never_be_rewritten(warehouse):
    table = warehouse.fresh(make=PAGES | {"bucket": "1"})
    table.upsert(rows(0, 70_000, "a"))
    assert len(warehouse.pages()) == 1


def test_a_file_is_copied_once_much_of_it_was_read(warehouse):
    warehouse.make(40_000)
    table = warehouse.fresh()
    check(table, 0, 20)
    assert stats(table).builds == 0
    deadline = time.monotonic() + 120
    while stats(table).builds < 2:
        assert time.monotonic() < deadline
        check(table, int(time.monotonic() * 1000), 20)
    assert stats(table).memory_bytes > 0


@pytest.mark.parametrize("change", ["add", "drop", "rename", "widen"])
def test_pages_outlive_changes_of_the_columns(warehouse, change):
    table = warehouse.make()
    if change == "add":
        table.alter.add_column("more", "INT")
    elif change == "drop":
        table.alter.drop_column("n")
    elif change == "rename":
        table.alter.rename_column("v", "w")
    else:
        table.alter.change_type("n", "BIGINT")
    table = warehouse.fresh()
    check(table)
    assert stats(table).page_reads > 0


def test_rows_that_deletion_vectors_delete_are_not_found(warehouse):
    table = warehouse.make(**{"deletion-vectors.enabled": "true"})
    table.delete([{"k": key} for key in range(0, 2 * ROWS, 6)])
    table = warehouse.fresh()
    for seed in range(4):
        check(table, seed)
    assert stats(table).page_reads > 0


def test_older_snapshots_are_looked_into(warehouse):
    table = warehouse.make()
    before = table.latest_snapshot().id
    table.upsert(rows(0, ROWS, "newest"))
    check(warehouse.fresh(), snapshot_id=before)


@pytest.mark.parametrize("fault", ["damaged", "cut short", "gone", "another's"])
def test_pages_that_cannot_be_read_are_done_without(warehouse, fault, caplog):
    warehouse.make()
    first, second = warehouse.pages()
    for path in (first, second):
        data = path.read_bytes()
        if fault == "damaged":
            path.write_bytes(bytes(byte ^ 1 for byte in data[:-4000]) + data[-4000:])
        elif fault == "cut short":
            path.write_bytes(data[: len(data) // 2])
        elif fault == "gone":
            path.unlink()
    if fault == "another's":
        smaller = warehouse.folder / "smaller"
        second.rename(smaller)
        with pkray.connect(warehouse.folder, runtime_options={"owners": 1}) as catalog:
            other = catalog.create_table("db.u", COLUMNS, ["k"], options=PAGES | {"bucket": "1"})
            other.upsert(rows(0, 6_000, "other"))
            other.upsert(rows(0, 6_000, "other"))
            other.compact(full=True)
            (strange,) = (Path(other.location.url)).rglob(f"*{SUFFIX}")
            first.write_bytes(strange.read_bytes())
            smaller.rename(second)
    table = warehouse.fresh()
    with caplog.at_level(logging.WARNING, "pkray"):
        check(table)
        check(table, 2)
    if fault != "another's":
        assert stats(table).page_reads == 0
        assert "itself, slower" in caplog.text


def test_pages_go_with_their_data_files(warehouse):
    table = warehouse.make()
    gone = {path.name for path in warehouse.pages()}
    table.upsert(rows(0, ROWS, "newest"))
    table.compact(full=True)
    table.expire_snapshots(retain_min=1, retain_max=1)
    left = {path.name for path in warehouse.pages()}
    assert len(left) == 2
    assert not left & gone
    assert left <= {path.name + SUFFIX for path in warehouse.data()}


def test_cleaning_orphans_takes_the_pages_of_a_crash_and_leaves_live_ones(warehouse):
    table = warehouse.make()
    live = warehouse.pages()
    stray = live[0].with_name("data-0a0b0c0d-0000-4000-8000-000000000000-0.parquet" + SUFFIX)
    stray.write_bytes(live[0].read_bytes())
    table.remove_orphan_files(datetime.datetime.now() + datetime.timedelta(days=1))
    assert warehouse.pages() == live


def test_a_run_that_is_given_up_leaves_no_pages(warehouse, monkeypatch):
    table = warehouse.fresh(make=PAGES)
    files = DataFileStore(table.location.open(), table.schema, bytes(12), 0)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(range(10)), pa.array([0] * 10, pa.int8()), range(10), ["x"] * 10, [1] * 10],
        schema=table.schema.row_schema,
    )
    with files.open_run(5, COMPACT_SOURCE) as writer:
        writer.write(batch)
    assert len(warehouse.pages()) == 1
    writer.abort()
    assert warehouse.pages() == []

    def fail(*_: object) -> int:
        raise StorageError("the disk is full")

    monkeypatch.setattr("pkray.storage.parquet.writer.ParquetWriter.close", fail)
    with pytest.raises(StorageError), files.open_run(5, COMPACT_SOURCE) as writer:
        writer.write(batch)
    assert warehouse.pages() == []


def test_memory_of_pages_is_bounded(warehouse):
    warehouse.make(**{"lookup.cache-max-memory-size": "2 kb"})
    table = warehouse.fresh()
    for seed in range(3):
        check(table, seed)
    assert stats(table).memory_bytes <= 2048


def test_several_lookups_open_the_pages_once(warehouse, monkeypatch):
    opened = []
    open_pages = DataFileStore.row_pages

    def count(files: DataFileStore, file: object) -> object:
        opened.append(file)
        return open_pages(files, file)

    warehouse.make()
    monkeypatch.setattr(DataFileStore, "row_pages", count)
    table = warehouse.fresh()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda seed: check(table, seed), range(8)))
    assert len(opened) == 2


def test_another_engine_reads_a_table_with_pages(warehouse):
    table = warehouse.make()
    there = read_with_rust(str(warehouse.folder), "db.t")
    assert rows_of(there, ["k"]) == rows_of(table.to_arrow(), ["k"])


def test_a_restored_table_has_the_pages_of_the_one_that_was_backed_up(warehouse, tmp_path):
    warehouse.make()
    warehouse.opened[0].backups(tmp_path / "backups").create("one")
    with pkray.connect(tmp_path / "other", runtime_options={"owners": 1}) as other:
        other.backups(tmp_path / "backups").restore("one")
        table = other.load_table("db.t")
        check(table)
        assert stats(table).page_reads > 0
        assert stats(table).degraded == 0


def test_pages_are_read_a_few_megabytes_at_a_time(warehouse, monkeypatch):
    monkeypatch.setattr("pkray.lookup.page_search.BYTES_AT_ONCE", 20_000)
    read, most = RowPages.read, []

    def note(pages: RowPages, numbers: np.ndarray) -> pa.RecordBatch:
        most.append(int(pages.page_bytes[numbers].sum()))
        return read(pages, numbers)

    monkeypatch.setattr(RowPages, "read", note)
    warehouse.make()
    check(warehouse.fresh(), 3, 8)
    assert len(most) > 2
    assert max(most) < 60_000
