"""What each node of a continuous run gives can be watched."""

import numpy as np
import pyarrow as pa
import pytest

from pkray.relational import changelog, query
from pkray.relational.continuous import graph
from pkray.relational.continuous.changes import Changes
from pkray.relational.plan.changelog_modes import ChangelogMode
from pkray.relational.plan.nodes import Aggregate, Scan
from pkray.schema.row_kind import DELETE, INSERT
from tests.node_schemas import check_changes
from tests.unit.relational.continuous.histories import Continuous

ADDED = ChangelogMode(frozenset("I"))


def counting(mode: str = "insert") -> Continuous:
    t = changelog({"k": "INT", "v": "INT"}, mode=mode, name="t")
    return Continuous(query("SELECT k, count(*) AS n FROM t WHERE v > 1 GROUP BY k", t=t), {"t": t})


def test_a_watch_is_shown_what_every_node_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[int, tuple[str, int]] = {}

    def watch(node: object, mode: ChangelogMode, changes: Changes) -> None:
        seen[id(node)] = (str(mode), len(changes) + seen.get(id(node), ("", 0))[1])

    monkeypatch.setattr(graph, "WATCHES", [*graph.WATCHES, watch])
    run = counting()
    run.push("t", [{"k": 1, "v": 2}, {"k": 2, "v": 0}])
    nodes = {type(node): seen[id(node)] for node in run.graph.stages[-1].node.walk()}
    assert nodes[Scan] == ("[I]", 2)
    assert nodes[Aggregate] == ("[I,UB,UA]", 1)


def changes_of(values: list[int | None], kinds: object) -> tuple[Scan, Changes]:
    t = changelog({"k": "INT NOT NULL"}, name="t")
    plan = t.plan
    assert isinstance(plan, Scan)
    return plan, Changes(pa.record_batch([values], schema=plan.fields.arrow), np.array(kinds))


@pytest.mark.parametrize(
    ("values", "kinds", "fault"),
    [
        ([None], np.array([INSERT], np.int8), "NULL in"),
        ([1], np.array([DELETE], np.int8), r"\['-D'\] in mode \[I\]"),
        ([1], np.array([7], np.int8), r"\['7'\] in mode"),
        ([1], np.array([INSERT]), "kinds of int64"),
        ([1, 2], np.array([INSERT], np.int8), "1 kinds for 2 rows"),
    ],
)
def test_changes_that_are_others_than_their_node_says_are_found(
    values: list[int | None], kinds: np.ndarray, fault: str
) -> None:
    node, changes = changes_of(values, kinds)
    with pytest.raises(AssertionError, match=fault):
        check_changes(node, ADDED, changes)


def test_all_tests_check_what_nodes_give() -> None:
    assert check_changes in graph.WATCHES
