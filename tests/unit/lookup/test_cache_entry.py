"""Copies that lookups need not wait for are made behind them."""

import logging
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pkray.format.data_file import DataFileMeta
from pkray.lookup import block_store
from pkray.lookup import store as store_module
from pkray.lookup.local_file_cache import RETRY_MILLIS, CopyLimits
from pkray.lookup.store import FEW_KEYS, SMALL_ROWS, LookupStore
from pkray.lsm.keys.key_prefixes import KeyPrefixes
from tests.clocks import Clock
from tests.unit.lookup.conftest import MemoryFiles, find
from tests.waiting import wait_until

ROWS = 10_000


class HeldFiles(MemoryFiles):
    """Copies wait for `let_go` before they see a row; lookups that read a file do not."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()
        self.is_copied = threading.Event()
        self.are_in_memory = False

    def read(self, file: DataFileMeta, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        self.is_copied.set()
        assert self.let_go.wait(200)
        yield from super().read(file, columns)

    def is_at_hand(self, file: DataFileMeta) -> bool:
        return self.are_in_memory


@pytest.fixture
def files() -> Iterator[HeldFiles]:
    held = HeldFiles()
    yield held
    held.let_go.set()


@pytest.fixture
def file(files: HeldFiles) -> DataFileMeta:
    k = np.arange(ROWS)
    return files.add("a", pa.table({"k": pa.array(2 * k), "v": pa.array(10 * k)}))


@pytest.fixture
def store(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, files: HeldFiles
) -> Iterator[LookupStore]:
    monkeypatch.setattr(store_module, "LARGE_ROWS", 100)
    limits = CopyLimits(None, 1 << 28, retention_millis=60_000)
    store = LookupStore(str(tmp_path / "lookup"), limits, clock=clock, in_background=True)
    yield store
    files.let_go.set()
    store.close()


def values(store: LookupStore, files: MemoryFiles, file: DataFileMeta, *keys: int) -> list[int]:
    asked = pa.table({"k": pa.array(keys, pa.int64())})
    positions, rows = find(store, files, file, asked, ["v"])
    found: list[int] = rows["v"].take(pa.array(np.argsort(positions))).to_pylist()
    return found


def values_of(files: MemoryFiles, name: str) -> pa.Table:
    return files.files[name].select(["k", "v"])


def test_few_keys_are_read_from_the_file_meanwhile(
    store: LookupStore, files: HeldFiles, file: DataFileMeta
) -> None:
    assert values(store, files, file, 4, 5, 2 * ROWS - 2) == [20, 10 * ROWS - 10]
    stats = store.stats()
    assert (stats.making, stats.builds, stats.scans, stats.degraded) == (1, 0, 1, 0)


def test_a_lookup_that_waits_for_its_copy_reads_a_file_that_goes_meanwhile(
    store: LookupStore, files: HeldFiles, file: DataFileMeta
) -> None:
    keys = range(0, 4 * FEW_KEYS, 2)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(values, store, files, file, *keys)
        assert files.is_copied.wait(120)
        store.drop(["a"])
        files.let_go.set()
        assert found.result() == [5 * key for key in keys]
    assert (store.stats().files, store.stats().scans) == (0, 1)


def test_a_copy_is_made_once_however_many_ask(
    store: LookupStore, files: HeldFiles, file: DataFileMeta
) -> None:
    for key in range(0, 20, 2):
        assert values(store, files, file, key) == [5 * key]
    files.let_go.set()
    wait_until(lambda: store.stats().making == 0)
    assert values(store, files, file, 4) == [20]
    stats = store.stats()
    assert (stats.builds, stats.hits, stats.scans) == (1, 1, 10)


def test_prefixes_are_read_from_the_file_meanwhile(
    store: LookupStore, files: HeldFiles, file: DataFileMeta
) -> None:
    prefixes = KeyPrefixes([pa.array([6, 1998])])
    places, rows = store.locate_prefixes(files, file, ["k"], prefixes, ["v"])
    assert places.tolist() == [3, 999]
    assert rows["v"].to_pylist() == [30, 9990]
    assert store.stats().making == 1


def test_many_keys_wait_for_the_copy(
    store: LookupStore, files: HeldFiles, file: DataFileMeta
) -> None:
    files.let_go.set()
    keys = range(0, 4 * FEW_KEYS, 2)
    assert values(store, files, file, *keys) == [5 * key for key in keys]
    stats = store.stats()
    assert (stats.builds, stats.scans) == (1, 0)


def test_many_keys_do_not_wait_where_the_rows_are_in_memory(
    store: LookupStore, files: HeldFiles, file: DataFileMeta
) -> None:
    files.are_in_memory = True
    keys = range(0, 4 * FEW_KEYS, 2)
    assert values(store, files, file, *keys) == [5 * key for key in keys]
    assert store.stats().making == 1


def test_a_small_file_in_memory_is_not_copied(
    store: LookupStore, files: HeldFiles, file: DataFileMeta
) -> None:
    files.are_in_memory = True
    small = files.add("b", values_of(files, "a").slice(0, SMALL_ROWS))
    assert values(store, files, small, 4, 2 * SMALL_ROWS) == [20]
    stats = store.stats()
    assert (stats.making, stats.builds, stats.scans) == (0, 0, 1)


def test_a_small_file_on_disk_is_copied_at_once(
    store: LookupStore, files: HeldFiles, file: DataFileMeta
) -> None:
    files.let_go.set()
    small = files.add("b", values_of(files, "a").slice(0, 100))
    assert values(store, files, small, 4, 200) == [20]
    assert store.stats().builds == 1


def test_the_copy_of_a_file_that_goes_is_given_up(
    store: LookupStore, files: HeldFiles, file: DataFileMeta
) -> None:
    other = files.add("b", values_of(files, "a"))
    values(store, files, file, 4)
    values(store, files, other, 4)
    store.drop(["a"])
    files.let_go.set()
    wait_until(lambda: store.stats().builds == 1)  # of the other, which came after it
    assert store.stats().files == 1
    assert values(store, files, other, 4) == [20]
    assert store.stats().hits == 1


def test_closing_gives_up_what_is_made(
    store: LookupStore, files: HeldFiles, file: DataFileMeta, tmp_path: Path
) -> None:
    for each in [file, *(files.add(name, values_of(files, "a")) for name in "bcd")]:
        values(store, files, each, 4)
    closing = threading.Thread(target=store.close)
    closing.start()
    files.let_go.set()
    closing.join(30)
    assert not closing.is_alive()
    assert not list((tmp_path / "lookup").glob("*/*"))
    assert store.stats().builds <= 1  # what was being made may have been done


def test_a_full_disk_degrades_the_lookups_that_follow(
    store: LookupStore,
    files: HeldFiles,
    file: DataFileMeta,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: object) -> None:
        raise block_store.LocalDiskError("No space left on device")

    monkeypatch.setattr(block_store.BlockStore, "load", full)
    files.let_go.set()
    with caplog.at_level(logging.WARNING):
        assert values(store, files, file, 4) == [20]
        wait_until(lambda: "No space left" in caplog.text)
    assert values(store, files, file, 4) == [20]
    assert store.stats().degraded == 1
    monkeypatch.undo()
    monkeypatch.setattr(store_module, "LARGE_ROWS", 100)
    clock.now += RETRY_MILLIS
    assert values(store, files, file, 4) == [20]
    wait_until(lambda: store.stats().builds == 1)


def test_a_file_that_cannot_be_copied_is_left_alone_for_a_while(
    store: LookupStore, files: HeldFiles, file: DataFileMeta, clock: Clock
) -> None:
    class Broken(HeldFiles):
        def read(self, file: DataFileMeta, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            self.reads += 100
            raise RuntimeError("a page is damaged")
            yield

    broken = Broken()
    broken.files = files.files
    for _ in range(3):
        assert values(store, broken, file, 4) == [20]
        wait_until(lambda: store.stats().making == 0)
    assert broken.reads == 103
    clock.now += RETRY_MILLIS
    values(store, broken, file, 4)
    wait_until(lambda: broken.reads == 204)
