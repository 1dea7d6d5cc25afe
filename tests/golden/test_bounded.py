"""What recorded continuous queries end with, and bounded ones give too."""

from pathlib import Path

import pytest

from tests.golden.case import Case
from tests.golden.run import run_case

CASES = [Case.read(path) for path in sorted((Path(__file__).parent / "data").glob("*.json"))]

EXCEPTED = {
    "asof_event_time_inner",
    "asof_event_time_left",
    "dedup_rowtime_keep_first",
    "s003_append_encoding_refused",
    "topn_rank_function",
    "ttl_dedup_keep_first",
    "ttl_group_by",
    "ttl_join_hint",
    "ttl_join_pipeline",
    "wagg_tumble_late",
}
"""Their results depend on what came when, or only a continuous run refuses them."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_bounded_run_gives_the_final_table(case: Case) -> None:
    outcome = run_case(case, "local")
    assert outcome.status == ("EXCEPTED" if case.name in EXCEPTED else "PASS"), outcome.detail
