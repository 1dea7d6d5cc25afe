"""A script that nothing happened to."""

from collections.abc import Callable, Set

import pkray
from pkray.storage.opening import open_store
from tests.faults.faulty_store import Storage, faulty, put_files
from tests.faults.script import Outcome, Script, outcome

_TABLE = "shop.db/orders/"


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
        self._files: list[dict[str, bytes]] = [{}]
        with faulty(self.storage), process(root) as catalog:
            for number, step in enumerate(script.steps):
                step(catalog)
                self._began_in(number)
                self._files.append(self.storage.state(len(self.storage.changes)))
                self._look(root, process)
        self._began_in(len(script.steps) - 1)

    def _began_in(self, step: int) -> None:
        self.step_of += [step] * (len(self.storage.operations) - len(self.step_of))

    def _look(self, root: str, process: Callable[[str], pkray.Catalog]) -> None:
        """With eyes of another process, and unseen by the storage."""
        copy = f"{root}-look{len(self.after)}"
        put_files(copy, self._files[-1])
        with process(copy) as other:
            self.after.append(outcome(other))

    def state_before(self, step: int) -> dict[str, bytes]:
        """The files when a step began."""
        return self._files[step]

    def check(self, step: int, root: str, catalog: pkray.Catalog) -> None:
        """A warehouse in which the step was done in another way is as this run left it.

        What the step left alone has to be there byte for byte. So snapshots, tags and branches from
        before it are what this run saw them to be, and only the others are read.
        """
        before, after = self._files[step : step + 2]
        kept = {path: data for path, data in before.items() if after.get(path) == data}
        store = open_store(root)
        for path, data in kept.items():
            assert store.read(path) == data, path
        assert outcome(catalog, self._known(step, kept.keys())) == self.after[step]

    def _known(self, step: int, kept: Set[str]) -> Outcome:
        """What of a step's outcome was there before it."""
        there = self.after[step]

        def is_kept(branch: str) -> bool:
            folder = f"{_TABLE}branch/branch-{branch}/"
            files = {path for path in self._files[step] if path.startswith(folder)}
            return bool(files) and files <= kept

        return Outcome(
            tagged={t: rows for t, rows in there.tagged.items() if f"{_TABLE}tag/tag-{t}" in kept},
            branches={name: rows for name, rows in there.branches.items() if is_kept(name)},
            history={
                number: rows
                for number, rows in there.history.items()
                if f"{_TABLE}snapshot/snapshot-{number}" in kept
            },
        )
