"""Whoever is lost at whichever moment, tables, queries, changelogs and files are right."""

import contextlib
import importlib
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pkray.relational.continuous.queries.definitions.options import QueryOptions
from tests.faults.faulty_store import Killed
from tests.faults.lives.machines import machines_open_stores
from tests.faults.matrix.cells import CANNOT, CELLS, COLUMNS, ROWS, Run, Wrong

SEEDS = 20
SHORTER = {
    "pkray.relational.continuous.queries.watched": {"SILENT_MILLIS": 400},
    "pkray.relational.continuous.queries.workers.worker": {
        "LOOK_SECONDS": 0.1,
        "POLL_SECONDS": 0.02,
        "FIRST_PAUSE_SECONDS": 0.05,
    },
}
"""How long queries wait: less than usual, for runs are short."""


@contextlib.contextmanager
def staged() -> Iterator[None]:
    """Within it, runs can be played."""
    names = list(QueryOptions.__dataclass_fields__)
    defaults = list(QueryOptions.__init__.__defaults__ or ())
    defaults[names.index("checkpoint_epochs") - len(names)] = 1
    with machines_open_stores(), pytest.MonkeyPatch.context() as patch:
        for module, values in SHORTER.items():
            for name, value in values.items():
                patch.setattr(importlib.import_module(module), name, value)
        patch.setattr(QueryOptions.__init__, "__defaults__", tuple(defaults))
        patch.setattr(threading, "excepthook", _unless_killed(threading.excepthook))
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def _unless_killed(hook: Callable[[threading.ExceptHookArgs], object]) -> Callable[..., None]:
    def told(args: threading.ExceptHookArgs) -> None:
        if args.exc_type is not Killed:
            hook(args)

    return told


@pytest.fixture(scope="module", autouse=True)
def on_stage() -> Iterator[None]:
    with staged():
        yield


def test_all_rows_and_columns_are_cells_or_said_to_be_impossible():
    pairs = {(row, column) for row in ROWS for column in COLUMNS}
    assert set(CANNOT) < pairs
    assert {row for row, _ in CELLS} == set(ROWS)
    assert {column for _, column in CELLS} == set(COLUMNS)


@pytest.mark.timeout(1200)
@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(1), id="1 seed"),
        pytest.param(range(1, SEEDS), id=f"{SEEDS - 1} more", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(("row", "column"), CELLS)
def test_nothing_is_lost(
    row: str, column: str, seeds: range, tmp_path: Path, survived: Callable[[str], None]
) -> None:
    wrong: dict[int, str] = {}
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            Run(row, column, seed, str(folder)).play()
        except Wrong as error:
            wrong[seed] = str(error)
    survived(f"{row}, {column}: {len(seeds) - len(wrong)} of {len(seeds)} survived")
    assert not wrong, "\n".join(f"seed {seed}: {text}" for seed, text in wrong.items())
