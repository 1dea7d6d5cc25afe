"""Memory as Linux says it."""

import os

import pytest

from pkray.metrics.memory import machine_memory_share, process_memory

MACHINE = "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 750 kB\n"


@pytest.fixture
def root(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(MACHINE)
    return tmp_path


def limited(root, most, taken, kept):
    folder = root / "sys/fs/cgroup"
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{taken}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {kept}\n")


def test_a_process_takes_its_resident_pages(root):
    (root / "proc/self/statm").write_text("900 20 10 1 0 5 0\n")
    assert process_memory(root) == 20 * os.sysconf("SC_PAGE_SIZE")


def test_a_system_that_says_nothing_gives_nothing(tmp_path):
    assert (process_memory(tmp_path), machine_memory_share(tmp_path)) == (None, None)


def test_what_is_available_is_not_in_use(root):
    assert machine_memory_share(root) == 0.25


def test_a_container_has_its_own_limit(root):
    limited(root, 1000, 900, 100)
    assert machine_memory_share(root) == 0.8


def test_a_container_without_a_limit_has_the_machines(root):
    limited(root, "max", 900, 100)
    assert machine_memory_share(root) == 0.25


def test_a_machine_that_is_fuller_than_the_container_counts(root):
    limited(root, 1000, 100, 0)
    assert machine_memory_share(root) == 0.25
