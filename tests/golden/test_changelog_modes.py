"""The kinds of changes in recorded plans, and in those of the same queries here."""

import re
from pathlib import Path

import pytest

import pkray
from pkray.relational.optimizer import optimize
from pkray.relational.plan.changelog_modes import changelog_modes
from pkray.relational.plan.nodes import Exchange
from pkray.relational.plan.physical import to_physical
from tests.golden.case import Case
from tests.golden.test_bounded import CASES

OTHERWISE = {
    "agg_minibatch": "the recorded plan aggregates twice",
    "limit_only": "here the order in which rows come is no update",
    "set_except": "the recorded plan is a join",
    "set_intersect": "the recorded plan is a join",
    "wjoin_semi": "here the inner query's columns are left out sooner",
    "asof_event_time_inner": "here deletes by key are deletes",
    "asof_event_time_left": "here deletes by key are deletes",
}
NUMBERED = {"topn_append_with_rownum", "topn_global", "topn_nulls_last_explicit"}
"""Here what an update of a numbered row takes away is told: its key alone does not say which."""
_LINE = re.compile(r"[\s:+-]*(?P<name>\w+)\(.*changelogMode=(?P<mode>\[[A-Z,]*\])")


def planned(case: Case) -> bool:
    if case.name == "normalize_filter_pushed":  # the recorded plan filters while it normalizes
        return False
    return "changelogMode" in str(case.said.get("plan")) and not case.said.get("sink")


@pytest.mark.parametrize(
    "case", [each for each in CASES if planned(each)], ids=lambda case: case.name
)
def test_the_root_and_the_exchanges_give_the_recorded_kinds(case: Case, tmp_path: Path) -> None:
    lines = [found for line in case.said["plan"] if (found := _LINE.match(line))]
    with pkray.connect(tmp_path) as catalog:
        case.open(catalog)
        relation = catalog.sql(case.sql, dialect="flink")
        plan = to_physical(optimize(relation.plan), before=False)
    modes = changelog_modes(plan, before=False)
    told = str(modes[id(plan)])
    assert (told.replace("UB,", "") if case.name in NUMBERED else told) == lines[0]["mode"]
    if case.name not in OTHERWISE:
        given = [str(modes[id(node)]) for node in plan.walk() if isinstance(node, Exchange)]
        recorded = [line["mode"] for line in lines if line["name"] == "Exchange"]
        assert sorted(given) == sorted(each.replace("PD", "D") for each in recorded)
