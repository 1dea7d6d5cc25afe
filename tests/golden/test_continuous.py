"""Recorded continuous queries, run continuously: one epoch an event."""

from pathlib import Path

import pytest

from tests.golden.case import Case
from tests.golden.run import run_case

CASES = [Case.read(path) for path in sorted((Path(__file__).parent / "data").glob("*.json"))]

EVENT_TIME = ("asof_event", "dedup_rowtime_keep_first", "wjoin_", "wtopn_")
"""Families that wait for event time, which queries do not yet."""
RUNNING = [case for case in CASES if not case.name.startswith(EVENT_TIME)]


@pytest.mark.parametrize("case", RUNNING, ids=lambda case: case.name)
def test_a_continuous_run_gives_the_recorded_changes(case: Case) -> None:
    outcome = run_case(case, "continuous")
    assert outcome.status == "PASS", outcome.detail


def test_no_case_is_left_out_unseen() -> None:
    assert len(RUNNING) >= 63
