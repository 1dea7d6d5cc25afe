"""A query that runs for long takes no more than one that has just begun.

Each runs in a process of its own: what a process takes is also what ran in it before.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.faults.soak import EPOCHS, EVERY, Course, Taken, course

OFTEN = {"execution.checkpointing.interval": "200 ms"}
"""Checkpoints let go of snapshots and files: many, for the runs here are short."""


def run(*args: object) -> Course:
    own = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=own) as process:
        return process.submit(course, *args).result()


def grown(early: Taken, late: Taken) -> list[str]:
    """List what grew, beyond what comes and goes between two moments.

    Pools start their threads as they need them: one an epoch would be sixty.
    """
    leeway = {"objects": 8_000, "cached": 200, "threads": 30, "descriptors": 30}
    leeway |= {"of_query": 100, "of_tables": 300}
    return [
        f"{name}: {getattr(early, name)}, then {getattr(late, name)}"
        for name, most in leeway.items()
        if getattr(late, name) > getattr(early, name) + most
    ]


@pytest.mark.slow
def test_what_epochs_leave_behind_is_forgotten_with_its_files(tmp_path):
    found = run(str(tmp_path), OFTEN, 90, 30)
    (_, early, *_), *_, (_, late, *_) = found.series
    assert found.cached_in_vain == []
    assert grown(early, late) == []
    assert found.is_right


@pytest.mark.slow
def test_twenty_thousand_epochs_take_no_more_than_one_thousand(tmp_path):
    found = run(str(tmp_path), {}, EPOCHS, EVERY)
    for number, taken, cpu, wall in found.series:
        print(f"{number:6}: {taken}; {cpu:.1f} ms CPU, {wall:.1f} ms an epoch")
    (_, early, cpu, _), (_, late, cpu_late, _) = found.series[1], found.series[-1]
    assert grown(early, late) == []
    assert late.resident < early.resident + 30
    assert cpu_late < cpu * 1.5
    assert found.is_right
