"""Disks that are full, and have space again later."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import pkray
from pkray.errors import StorageFullError
from pkray.service.protocol import RoutedBatch
from pkray.service.staging import StagingArea
from tests.faults.script import NAME, create


class Disk:
    """A small file system of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as file:
            for size in (64 << 10, 4 << 10, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue

    def free(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def disk(tmp_path) -> Iterator[Disk]:
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(path)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user may not mount file systems")
    yield Disk(path)
    subprocess.run(["umount", "-l", str(path)], check=True)


def rows(first: int, count: int = 500) -> pa.Table:
    keys = range(first, first + count)
    return pa.table({"k": keys, "dt": ["x"] * count, "v": [3 * key for key in keys]})


def read(table: pkray.Table) -> list[tuple[int, int]]:
    found = table.to_arrow(["k", "v"])
    return sorted(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))


def expected(count: int) -> list[tuple[int, int]]:
    return [(key, 3 * key) for key in range(count)]


def test_a_commit_to_a_full_disk_is_repeated_by_the_same_writer(disk, tmp_path):
    options = {"local_directory": str(tmp_path / "local")}
    with pkray.connect(str(disk.path / "w"), runtime_options=options) as catalog:
        create(changelog_producer="lookup")(catalog)
        table = catalog.load_table(NAME)
        with table.open_writer("job") as writer:
            writer.upsert(rows(0))
            writer.commit(0)
            writer.upsert(rows(500))
            disk.fill()
            with pytest.raises(StorageFullError, match="free space"):
                writer.commit(1)
            assert read(table) == expected(500)
            disk.free()
            writer.commit(1)
        assert read(table) == expected(1000)
        left = table.remove_orphan_files(2**42, dry_run=True)["path"].to_pylist()
        assert not [path for path in left if "/." not in path], "what failed was tidied up"


def test_a_full_local_disk_costs_speed_alone(disk, tmp_path):
    options = {"owners": 1, "local_directory": str(disk.path / "local")}
    with pkray.connect(str(tmp_path / "w"), runtime_options=options) as catalog:
        create(changelog_producer="lookup")(catalog)
        table = catalog.load_table(NAME)
        with table.open_writer("job") as writer:
            for number in range(4):
                if number == 1:
                    disk.fill()
                writer.upsert(rows(400 * number))
                writer.commit(number)
                found = table.lookup([{"k": n, "dt": "x"} for n in range(0, 1700, 10)])
                assert found["v"].to_pylist() == [3 * n for n in found["k"].to_pylist()]
                assert found.num_rows == 50 + 40 * number
        (owner,) = table.service_stats()["owners"]
        assert owner["lookup"].degraded > 0
        assert read(table) == expected(1700)
        kinds = table.changelog()["_row_kind"].to_pylist()
        assert (kinds.count("+I"), kinds.count("-U"), kinds.count("-D")) == (1700, 300, 0)


def test_rows_that_wait_on_a_full_disk_stay_in_memory(disk):
    staging = StagingArea(str(disk.path / "staging"), memory_limit=1)
    batches = [RoutedBatch(pa.record_batch({"k": [number]}), ()) for number in range(3)]
    disk.fill()
    for number in range(2):
        with pytest.raises(StorageFullError, match="free space"):
            staging.put((0, 0), number, batches[number])
        staging.put((0, 0), number, batches[number])  # it is here: again changes nothing
    disk.free()
    staging.put((0, 0), 2, batches[2])
    found = [batch.rows["k"].to_pylist() for batch in staging.take((0, 0))]
    assert found == [[0], [1], [2]]
