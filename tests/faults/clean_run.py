"""A script that nothing happened to."""

from __future__ import annotations

from collections.abc import Callable

import pkray
from tests.faults.faulty_store import Storage, faulty, put_files
from tests.faults.script import Outcome, Script, outcome


class CleanRun:
    """What it did, and what came of it.

    Attributes:
        after: what there was after each step.
        step_of: the step of each operation.
    """

    def __init__(self, script: Script, root: str, process: Callable[[str], pkray.Catalog]) -> None:
        self.script = script
        self.storage = Storage(root)
        self.step_of: list[int] = []
        self.after: list[Outcome] = []
        with faulty(self.storage), process(root) as catalog:
            for number, step in enumerate(script.steps):
                step(catalog)
                self._began_in(number)
                self._look(root, process)
        self._began_in(len(script.steps) - 1)

    def _began_in(self, step: int) -> None:
        self.step_of += [step] * (len(self.storage.operations) - len(self.step_of))

    def _look(self, root: str, process: Callable[[str], pkray.Catalog]) -> None:
        """With eyes of another process, and unseen by the storage."""
        copy = f"{root}-look{len(self.after)}"
        put_files(copy, self.storage.state(len(self.storage.changes)))
        with process(copy) as other:
            self.after.append(outcome(other))

    def state_before(self, step: int) -> dict[str, bytes]:
        """The files when a step began."""
        first = self.step_of.index(step) if step in self.step_of else len(self.step_of)
        changes = (
            self.storage.seen[first][0] if first < len(self.step_of) else len(self.storage.changes)
        )
        return self.storage.state(changes)
