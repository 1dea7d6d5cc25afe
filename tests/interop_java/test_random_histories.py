"""Random histories of tables of every merge engine, by pkray and by Paimon's Java core.

Of each there are two tables: one that pkray writes, and one that Java writes. Their contents are
the same after every commit, so are their changes, and both read the other's table and go on with
it. ``PKRAY_TEST_HISTORY`` names a file with a history that failed, to run it alone.
"""

import itertools
import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pkray.errors import PkrayError
from tests.effort import examples
from tests.interop_java.both import Both, Row
from tests.interop_java.history import Batch, History
from tests.interop_java.java_core import JavaError
from tests.interop_java.random_history import ENGINES, random_history

WRITERS = ("pkray", "java")
OTHER = {"pkray": "java", "java": "pkray"}
FAULTS = (
    "NullPointerException",
    "ArithmeticException",
    "IndexOutOfBoundsException",
    "please compare fields one by one",
)
"""What Paimon's Java core does not throw on purpose."""
NAMED = os.environ.get("PKRAY_TEST_HISTORY", "")
CASES = [(NAMED, 0)] if NAMED else [(name, n) for name in ENGINES for n in range(examples(4))]


class Twins:
    """A table of each writer."""

    def __init__(self, make: Any, history: History) -> None:
        self._batches = history.batches
        self._of: dict[str, Both] = {
            who: make(
                history.columns,
                history.primary_keys,
                history.partition_keys,
                history.options,
                maker=who,
                unordered=history.unordered,
            )
            for who in WRITERS
        }
        self._newest: dict[str, list[int]] = {who: [] for who in WRITERS}

    def run(self) -> None:
        """Make the commits, the last two on the other's table; up to what both refuse.

        Raises:
            AssertionError: they differ.
        """
        for turn, batch in enumerate(self._batches):
            left = len(self._batches) - 1 - turn
            if batch.change is not None:
                for both in self._of.values():
                    both.alter(*batch.change)
            stay = left not in (0, 2) and self._batches[turn + 1].change is None
            if _refused([_tried(self._commit, who, batch, left, stay) for who in WRITERS]):
                return
            contents = [_tried(self._of[who].content, who) for who in WRITERS]
            if _refused(contents):
                return
            assert not _differences(*contents), f"content with {left} commits to come"
        changes = [self._by_commit(who) for who in WRITERS]
        for turn, (pkray, java) in enumerate(zip(*changes, strict=True)):
            assert not _differences(pkray, java), f"changes of commit {turn}"
        for both in self._of.values():
            both.check()

    def _commit(self, who: str, batch: Batch, left: int, stay: bool) -> None:
        both = self._of[who]
        both.write(who if left > 1 else OTHER[who], batch.rows, batch.full, stay)
        newest = both.table.latest_snapshot()
        self._newest[who].append(newest.id if newest else 0)

    def _by_commit(self, who: str) -> list[dict[str, list[Row]]]:
        """What each commit changed, by key, as its writer reads it."""
        changes = self._of[who].check_changes()
        found = []
        for first, last in itertools.pairwise([0, *self._newest[who]]):
            of_commit: dict[str, list[Row]] = defaultdict(list)
            for snapshot in range(first + 1, last + 1):
                for key, rows in changes.get(snapshot, {}).items():
                    of_commit[key] += rows
            found.append(dict(of_commit))
        return found


def _tried(work: Callable[..., Any], *arguments: Any) -> Any:
    """What it returns, or the error of its refusal."""
    try:
        return work(*arguments)
    except (PkrayError, JavaError) as error:
        return error


def _refused(results: list[Any]) -> bool:
    """Whether both refused; or the Java core failed, and there is no more to compare."""
    errors = [result for result in results if isinstance(result, Exception)]
    if any(fault in str(error) for error in errors for fault in FAULTS):
        return True
    assert len(errors) in (0, len(results)), errors
    return bool(errors)


def _differences(pkray: dict[str, Any], java: dict[str, Any]) -> dict[str, Any]:
    """What each has of the keys of which they do not have the same."""
    return {
        key: {"pkray": pkray.get(key), "java": java.get(key)}
        for key in pkray | java
        if pkray.get(key) != java.get(key)
    }


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "number"), CASES)
def test_contents_and_changes_are_javas(make: Any, name: str, number: int) -> None:
    history = History.from_json(Path(name).read_text()) if NAMED else random_history(name, number)
    try:
        Twins(make, history).run()
    except Exception as error:
        error.add_note(f"the history: {history.to_json()}")
        raise
