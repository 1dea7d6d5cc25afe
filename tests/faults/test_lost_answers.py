"""Operations that fail, are torn, or are done without an answer: the job goes on in its process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import pkray
from pkray.errors import PkrayError, StorageError, StorageFullError
from tests.faults.clean_run import CleanRun
from tests.faults.faulty_store import MUTATIONS, Fault, Operation, Storage, faulty, put_files
from tests.faults.script import DELETION_VECTORS, LOOKUP, WRITE_ONLY, Script, outcome

TRIES = 4


def _faulty_step(
    run: CleanRun,
    number: int,
    make_fault: Callable[[Operation], Any],
    root: str,
    process: Callable[[str], pkray.Catalog],
) -> int:
    """Do the step of an operation, which meets the fault; again in the same process until it is
    done. The number of errors the job saw."""
    step = run.step_of[number]
    put_files(root, run.state_before(step))
    within = number - run.step_of.index(step)
    storage = Storage(root, lambda op: make_fault(op) if op.number >= within else None)
    errors = 0
    with faulty(storage), process(root) as catalog:
        for _ in range(TRIES):
            try:
                run.script.steps[step](catalog)
                break
            except PkrayError:  # anything else fails the test
                errors += 1
    assert errors < TRIES
    with process(root) as catalog:
        assert outcome(catalog) == run.after[step], run.storage.operations[number]
    return errors


def _once(fault: Any, times: int = 1) -> Callable[[Operation], Any]:
    left = [times]

    def plan(_: Operation) -> Any:
        left[0] -= 1
        return fault if left[0] >= 0 else None

    return plan


def _sweep(
    script: Script, kind: str, name: str, fault: Any, every: int, tools: Any, times: int = 1
) -> None:
    new_root, process, survived = tools
    run = CleanRun(script, new_root(kind), process)
    chosen = [
        op.number
        for op in run.storage.operations
        if op.name in MUTATIONS or fault is Fault.FAIL or isinstance(fault, Exception)
    ][::every]
    errors = 0
    for number in chosen:
        errors += _faulty_step(run, number, _once(fault, times), new_root(kind), process)
    survived(
        f"{script.name}, {kind}, {name}: {len(chosen)} of {len(chosen)} survived "
        f"({errors} errors were seen)"
    )


@pytest.fixture
def tools(new_root, process, survived):
    return new_root, process, survived


@pytest.mark.parametrize("script", [LOOKUP, DELETION_VECTORS, WRITE_ONLY], ids=lambda s: s.name)
def test_a_lost_answer_changes_nothing(script, tools):
    _sweep(script, "memory", "answers lost", Fault.LOSE_ANSWER, 7, tools)


def test_a_torn_write_changes_nothing(tools):
    _sweep(LOOKUP, "disk", "torn", Fault.TEAR, 16, tools)


@pytest.mark.parametrize("times", [1, 2])
def test_what_fails_in_passing_is_done_again(tools, times):
    _sweep(LOOKUP, "memory", f"failed {times} times", Fault.FAIL, 61, tools, times)


def test_a_full_disk_of_the_table_loses_nothing(tools):
    """Every write fails until there is space again."""
    new_root, process, survived = tools
    run = CleanRun(LOOKUP, new_root("disk"), process)
    writes = [op for op in run.storage.operations if op.name in ("write", "create", "close")]
    for operation in writes[::16]:
        full = StorageFullError("no space left, as planned", path=operation.path)
        left = [3]

        def plan(op: Operation, full: StorageError = full, left: list[int] = left) -> Any:
            if op.name not in ("write", "create", "open_output", "close"):
                return None
            left[0] -= 1
            return full if left[0] >= 0 else None

        _faulty_step(run, operation.number, plan, new_root("disk"), process)
    survived(f"full disk of the table: {len(writes[::16])} of {len(writes[::16])} survived")
