"""Operations that fail, are torn, or are done without an answer: the job goes on in its process."""

import re
from collections.abc import Callable, Collection

import pytest

import pkray
from pkray.errors import PkrayError, StorageFullError
from tests.effort import stride
from tests.faults.clean_run import CleanRun
from tests.faults.faulty_store import MUTATIONS, Fault, Operation, Plan, Storage, faulty, put_files
from tests.faults.script import DELETION_VECTORS, LOOKUP_IN_SHORT, WRITE_ONLY, Script

TRIES = 4
SCRIPTS = pytest.mark.parametrize(
    "script", [LOOKUP_IN_SHORT, DELETION_VECTORS, WRITE_ONLY], ids=lambda script: script.name
)


class Sweep:
    """One fault at each of the operations of a clean run, and a job that goes on.

    Args:
        name: of the fault.
        make_plan: a new plan of it, which begins with the operation.
    """

    def __init__(
        self,
        name: str,
        make_plan: Callable[[], Plan],
        script: Script,
        root: Callable[[], str],
        process: Callable[[str], pkray.Catalog],
    ) -> None:
        self.name = name
        self.make_plan = make_plan
        self.root = root
        self.process = process
        self.run = CleanRun(script, root(), process)

    def meet(
        self, names: Collection[str] | None = None, *, each: bool = True, every: int = 1
    ) -> str:
        """Have the fault at every operation, or at every one of these names, in turn.

        Args:
            every: 3 leaves two out of three out.
            each: also where a step does to a kind of file again what it did before, and it changes
                nothing.

        Returns:
            The count of those survived.
        """
        operations = self.run.storage.operations if each else self._first_of_a_kind()
        chosen = [each for each in operations if names is None or each.name in names][::every]
        failed, errors = {}, 0
        for operation in chosen:
            try:
                errors += self._at(operation)
            except Exception as error:
                failed[operation] = error
        good = f"{len(chosen) - len(failed)} of {len(chosen)}"
        example = next(iter(failed.items()), None)
        assert not failed, f"{good} operations survived: {example}"
        what = "operations" if names is None else "operations that change files"
        return (
            f"{self.run.script.name}, {self.name}: {good} {what} survived "
            f"({errors} errors were seen)"
        )

    def _first_of_a_kind(self) -> list[Operation]:
        """All that change files; of others the first of each step, name and kind of file."""
        chosen: dict[object, Operation] = {}
        for operation in self.run.storage.operations:
            kind = re.sub(r"[0-9a-f-]*\d[0-9a-f-]*", "#", operation.path)
            is_change = operation.name in MUTATIONS
            place = operation.number if is_change else self.run.step_of[operation.number]
            chosen.setdefault((place, operation.name, kind), operation)
        return list(chosen.values())

    def _at(self, operation: Operation) -> int:
        """Do the step of an operation, which meets the fault; again in the same process until it is
        done. The number of errors the job saw."""
        run, root = self.run, self.root()
        step = run.step_of[operation.number]
        put_files(root, run.state_before(step))
        within = operation.number - run.step_of.index(step)
        plan = self.make_plan()
        storage = Storage(root, lambda op: plan(op) if op.number >= within else None)
        errors = 0
        with faulty(storage), self.process(root) as catalog:
            for _ in range(TRIES):
                try:
                    run.script.steps[step](catalog)
                    break
                except PkrayError:  # anything else fails the test
                    errors += 1
        assert errors < TRIES
        with self.process(root) as catalog:
            run.check(step, root, catalog)
        return errors


def _first(times: int, fault: Callable[[Operation], Fault | Exception | None]) -> Plan:
    """The first operations fail that the fault says something of."""
    left = [times]

    def plan(operation: Operation) -> Fault | Exception | None:
        found = fault(operation) if left[0] else None
        left[0] -= found is not None
        return found

    return plan


def _full(operation: Operation) -> Exception | None:
    if operation.name not in ("write", "create", "open_output", "close"):
        return None
    return StorageFullError("no space left, as planned", path=operation.path)


EVERY = pytest.mark.parametrize(
    "every",
    [
        pytest.param(stride(6), id="some operations"),
        pytest.param(1, id="all operations", marks=pytest.mark.slow),
    ],
)


@pytest.fixture
def sweep(new_root, process) -> Callable[..., Sweep]:
    def make(name: str, make_plan: Callable[[], Plan], script: Script, kind: str) -> Sweep:
        return Sweep(f"{kind}, {name}", make_plan, script, lambda: new_root(kind), process)

    return make


@pytest.mark.sampled(2)
@SCRIPTS
@EVERY
def test_a_lost_answer_changes_nothing(script, every, sweep, survived):
    """Of what changes files: without an answer, other operations are failed ones."""
    lost = sweep("answers lost", lambda: _first(1, lambda _: Fault.LOSE_ANSWER), script, "memory")
    survived(lost.meet(MUTATIONS, every=every))


@EVERY
def test_a_torn_write_changes_nothing(every, sweep, survived):
    torn = sweep("torn", lambda: _first(1, lambda _: Fault.TEAR), LOOKUP_IN_SHORT, "disk")
    survived(torn.meet(MUTATIONS, every=every))


@pytest.mark.sampled(1)
@SCRIPTS
@EVERY
def test_what_fails_in_passing_is_done_again(script, every, sweep, survived):
    failed = sweep("failed", lambda: _first(1, lambda _: Fault.FAIL), script, "memory")
    survived(failed.meet(each=every == 1, every=every))


@EVERY
def test_what_fails_together_with_the_next_is_done_again(every, sweep, survived):
    """What tidies up after a failure fails too."""
    both = sweep(
        "failed with the next", lambda: _first(2, lambda _: Fault.FAIL), LOOKUP_IN_SHORT, "memory"
    )
    survived(both.meet(each=every == 1, every=every))


@EVERY
def test_a_full_disk_of_the_table_loses_nothing(every, sweep, survived):
    """Three writes fail, then there is space again."""
    full = sweep("full", lambda: _first(3, _full), LOOKUP_IN_SHORT, "disk")
    survived(full.meet(("write", "create", "open_output", "close"), every=every))
