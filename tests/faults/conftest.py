"""Warehouses to be damaged, and the counts of what they survived."""

import itertools
from collections.abc import Callable

import pytest

import pkray
from tests.faults.faulty_store import Storage, faulty, put_files

Check = Callable[[pkray.Catalog], None]
Sweep = Callable[[str, int, Callable[[pkray.Catalog], Check]], None]

_numbers = itertools.count()


@pytest.fixture
def new_root(tmp_path) -> Callable[[str], str]:
    """A root for a warehouse that is not there yet, on ``disk`` or in ``memory``."""

    def make(kind: str) -> str:
        number = next(_numbers)
        return str(tmp_path / f"w{number}") if kind == "disk" else f"memory://faults-{number}"

    return make


@pytest.fixture
def process(tmp_path) -> Callable[[str], pkray.Catalog]:
    """A warehouse as a process that has just begun sees it."""
    opened: list[pkray.Catalog] = []

    def begin(root: str) -> pkray.Catalog:
        options = {"owners": 1, "local_directory": str(tmp_path / "local")}
        catalog = pkray.connect(root, runtime_options=options)
        opened.append(catalog)
        return catalog

    return begin


@pytest.fixture
def survived(record_property) -> Callable[[str], None]:
    """Say a count at the end of the run."""
    return lambda line: record_property("survived", line)


@pytest.fixture
def sweep(
    new_root: Callable[[str], str],
    process: Callable[[str], pkray.Catalog],
    survived: Callable[[str], None],
) -> Sweep:
    """Run a job, then what it returns on each so-manieth state that its storage was in."""

    def run(what: str, stride: int, job: Callable[[pkray.Catalog], Check]) -> None:
        storage = Storage(new_root("memory"))
        with faulty(storage), process(storage.root) as catalog:
            check = job(catalog)
        states = range(1, len(storage.changes) + 1, stride)
        failed: dict[int, Exception] = {}
        for changes in states:
            root = new_root("memory")
            put_files(root, storage.state(changes))
            try:
                with process(root) as catalog:
                    check(catalog)
            except Exception as error:
                failed[changes] = error
        good = len(states) - len(failed)
        survived(f"{what}: {good} of {len(states)} crash points survived")
        assert not failed, f"{len(failed)} of {len(states)}: {next(iter(failed.items()))}"

    return run
