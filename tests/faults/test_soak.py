"""A query that runs for long takes no more than one that has just begun."""

from __future__ import annotations

import pytest

from pkray.relational.continuous.queries import worker
from tests.faults.soak import EPOCHS, EVERY, POLL_SECONDS, Soak, Taken, series

OFTEN = {"execution.checkpointing.interval": "200 ms"}
"""Checkpoints let go of snapshots and files: many, for the runs here are short."""


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "POLL_SECONDS", POLL_SECONDS)


def grown(early: Taken, late: Taken) -> list[str]:
    """List what grew, beyond what comes and goes between two moments."""
    leeway = {"objects": 8_000, "cached": 200, "threads": 4, "descriptors": 8}
    leeway |= {"of_query": 100, "of_tables": 300}
    return [
        f"{name}: {getattr(early, name)}, then {getattr(late, name)}"
        for name, most in leeway.items()
        if getattr(late, name) > getattr(early, name) + most
    ]


def test_what_epochs_leave_behind_is_forgotten_with_its_files(tmp_path):
    with Soak(str(tmp_path), OFTEN) as soak:
        (_, early, *_), *_, (_, late, *_) = series(soak, 90, 30)
        assert soak.cached_in_vain() == []
        assert grown(early, late) == []
        assert soak.is_right()


@pytest.mark.slow
def test_twenty_thousand_epochs_take_no_more_than_one_thousand(tmp_path):
    with Soak(str(tmp_path)) as soak:
        found = list(series(soak, EPOCHS, EVERY))
        for number, taken, cpu, wall in found:
            print(f"{number:6}: {taken}; {cpu:.1f} ms CPU, {wall:.1f} ms an epoch")
        (_, early, cpu, _), (_, late, cpu_late, _) = found[1], found[-1]
        assert grown(early, late) == []
        assert late.resident < early.resident + 30
        assert cpu_late < cpu * 1.5
        assert soak.is_right()
