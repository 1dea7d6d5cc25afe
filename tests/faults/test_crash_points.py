"""The process is killed before and after each operation on its storage, and the job goes on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import pkray
from pkray.storage.opening import open_store
from tests.effort import stride
from tests.faults.clean_run import CleanRun
from tests.faults.faulty_store import Fault, Killed, Storage, faulty, put_files
from tests.faults.named import unnamed
from tests.faults.script import (
    DELETION_VECTORS,
    LOOKUP,
    NAME,
    WRITE_ONLY,
    Outcome,
    Script,
    clean,
    commit,
    compact,
)

FOLDER = "shop.db/orders/"


@dataclass(frozen=True)
class CrashPoint:
    """A state on storage, and the step that was under way."""

    changes: int
    step: int
    torn: str | None = None
    """The file whose temporary copy was being written."""


class Sweep(CleanRun):
    """The crash points of a clean run."""

    def points(self, *, torn: bool) -> list[CrashPoint]:
        """The state that each crash point leaves, in order, the same ones again and again.

        They are before and after each operation, and in its middle where it deletes several files.

        Args:
            torn: where a write comes next, it is half done.
        """
        found = []
        writing: dict[tuple[int, int], str] = {}
        for operation, (before, after) in zip(
            self.storage.operations, self.storage.seen, strict=True
        ):
            step = self.step_of[operation.number]
            if torn and operation.name in ("write", "create", "close"):
                writing[before, step] = operation.path
            for changes in range(before, max(after, before + 1) + 1):
                found.append((min(changes, after), step))
        return [CrashPoint(*point, writing.get(point)) for point in found]


def _every(script: Script, kind: str, places: int = 1, *, slow: bool = False) -> Any:
    marks = [pytest.mark.slow] if slow else []
    return pytest.param(script, kind, stride(places), marks=marks, id=f"{script.name}, {kind}")


@pytest.mark.parametrize(
    ("script", "kind", "every"),
    [
        _every(LOOKUP, "disk", 12),
        _every(DELETION_VECTORS, "memory", 12),
        _every(WRITE_ONLY, "memory", 12),
        *(
            _every(script, kind, slow=True)
            for script in (LOOKUP, DELETION_VECTORS, WRITE_ONLY)
            for kind in ("disk", "memory")
        ),
    ],
)
def test_a_job_goes_on_from_every_crash_point(script, kind, every, new_root, process, survived):
    """What is left of a killed process is its files: so each different state is met once, for
    all of the operations between which the process may have been killed to leave it."""
    run = Sweep(script, new_root(kind), process)
    points = run.points(torn=kind == "disk")
    tried = dict.fromkeys(list(dict.fromkeys(points))[::every])
    points = [point for point in points if point in tried]
    failed = {}
    for point in tried:
        try:
            _recover(run, point, new_root(kind), process)
        except Exception as error:
            failed[point] = error
    operations = len(run.storage.operations)
    good = sum(point not in failed for point in points)
    survived(
        f"{script.name}, {kind}: {good} of {len(points)} crash points survived "
        f"({operations} operations, {len(run.storage.changes)} changes of files)"
    )
    example = next(iter(failed.items()), None)
    assert not failed, f"{len(points) - good} of {len(points)} crash points failed: {example}"


def _recover(
    run: Sweep, point: CrashPoint, root: str, process: Callable[[str], pkray.Catalog]
) -> None:
    files = run.storage.state(point.changes)
    if point.torn is not None:
        folder, _, name = point.torn.rpartition("/")
        files[f"{folder}/.{name}.0123456789abcdef.tmp"] = b"torn"
    put_files(root, files)
    with process(root) as catalog:
        run.script.steps[point.step](catalog)
        run.check(point.step, root, catalog)
        clean()(catalog)
        assert unnamed(_files(root)) == []
        _use(catalog, run.after[point.step])


def _use(catalog: pkray.Catalog, expected: Outcome) -> None:
    """The table takes and compacts rows as before."""
    if not catalog.table_exists(NAME):
        return
    extra = dict.fromkeys(expected.columns[3:], 1)
    commit("c", 7, {(100, "x"): 100}, **extra)(catalog)
    compact(full=True)(catalog)
    rows = catalog.load_table(NAME).to_arrow().sort_by([("k", "ascending"), ("dt", "ascending")])
    found = rows.to_pylist()
    assert found[-1]["k"] == 100
    assert found[:-1] == expected.rows


def _files(root: str) -> dict[str, bytes]:
    store = open_store(root).child(FOLDER)
    return {file.path: store.read(file.path) for file in store.list("", hidden=True)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["disk", "memory"])
@pytest.mark.parametrize("fault", [Fault.KILL_BEFORE, Fault.KILL_AFTER])
def test_a_dying_process_leaves_what_the_sweep_says(fault, kind, new_root, process):
    """The states of the sweep are those that killed processes do leave: shown for some."""
    script = LOOKUP
    run = Sweep(script, new_root(kind), process)
    for number in range(3, len(run.storage.operations), 149):
        root = new_root(kind)
        storage = Storage(root, lambda op, number=number: fault if op.number == number else None)
        with faulty(storage):
            try:
                catalog = process(root)
                for step in script.steps:
                    step(catalog)
            except Killed:
                pass
        assert storage.is_dead
        left = {
            path: data
            for path, data in _all_files(root).items()
            if not path.rpartition("/")[2].startswith(".")
        }
        assert left == storage.state(len(storage.changes))
        before, after = run.storage.seen[number]
        assert len(left) == len(run.storage.state(before if fault is Fault.KILL_BEFORE else after))


def _all_files(root: str) -> dict[str, bytes]:
    store = open_store(root)
    return {file.path: store.read(file.path) for file in store.list("", hidden=True)}
