"""What becomes of states when another plan takes over."""

from typing import Any

import pytest

from pkray.relational import changelog, query
from pkray.relational.plan.expressions import ColumnRef
from pkray.relational.plan.json.writer import to_json
from pkray.relational.plan.nodes import Aggregate, Exchange, Hint, Join, JoinKind, Node, Project
from pkray.relational.plan.physical import to_physical
from pkray.relational.plan.plan_diff import (
    computes_same,
    diff_of,
    fingerprints,
    refusals,
    result_key,
)
from pkray.relational.plan.state import state_ttls
from pkray.schema.types import DataType
from tests.unit.relational.plan.sample_plans import count, project, scan

COLUMNS = "k INT NOT NULL, v INT, w STRING"


def table(columns: str = COLUMNS) -> Node:
    """Give a scan of two columns, whatever the table has besides."""
    source = scan(columns, "k", "all").source
    return type(scan(COLUMNS))(source, ("k", "v"))


def grouped(below: Node) -> Aggregate:
    return count(Exchange(below, ("v",)), "v")


def written(*roots: Node, ttl: str = "0 ms") -> dict[str, Any]:
    needs = [True] * len(roots)
    return to_json(roots, dialect="spark", version="0.2", ttl=ttl, before=needs)


def fates(old: Node, new: Node) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.fate, each.differs) for each in diff_of(written(old), written(new)).nodes]


def test_a_state_is_kept_whatever_its_number_and_ttl() -> None:
    names = scan("v INT NOT NULL", "v", "all")
    above = Join(grouped(table()), names, JoinKind.INNER, ("v",), ("v",), ("v0",))
    diff = diff_of(written(grouped(table())), written(above, ttl="1 d"))
    assert [(each.fate, each.old_id) for each in diff.kept] == [("kept", 3)]
    assert [each.description.split("(")[0] for each in diff.warmed_up] == ["Join"]


def test_a_hint_of_a_ttl_keeps_a_state_but_is_another_plan() -> None:
    hinted = grouped(Hint(table(), "STATE_TTL", (("ttl", "1 d"),)))
    assert fates(grouped(table()), hinted) == [("kept", ())]
    assert not computes_same(written(grouped(table())), written(hinted))


def test_a_hint_holds_for_the_operator_above_what_is_computed_of_rows() -> None:
    named = changelog({"t": "INT", "v": "INT"}, name="t")
    sql = "SELECT /*+ STATE_TTL('t' = '1 d') */ v % 2, COUNT(*) FROM t WHERE t > 0 GROUP BY v % 2"
    plan = to_physical(query(sql, t=named).plan, before=True)
    (group,) = (node for node in plan.walk() if isinstance(node, Aggregate))
    assert state_ttls(group) == ("1 d",)


def test_columns_that_nobody_reads_make_no_other_plan() -> None:
    before, after = written(grouped(table())), written(grouped(table(f"{COLUMNS}, x INT")))
    assert before["nodes"][0]["digest"] != after["nodes"][0]["digest"]
    assert computes_same(before, after)
    assert diff_of(before, after).is_same


def test_a_column_of_another_type_makes_another_plan() -> None:
    other = table("k INT NOT NULL, v BIGINT, w STRING")
    assert fates(grouped(table()), grouped(other)) == [
        ("warmed up", ("outputType",)),
        ("dropped", ()),
    ]


def test_states_that_the_watermark_cleans_are_compared_where_they_are_named() -> None:
    document = written(table())
    assert diff_of(document, document).nodes == ()
    assert [each.fate for each in diff_of(document, document, ((1,), (1,))).nodes] == ["kept"]


def test_equal_operators_below_different_ones_have_equal_fingerprints() -> None:
    one, other = written(grouped(table())), written(project(grouped(table()), "v"))
    assert set(fingerprints(one).values()) < set(fingerprints(other).values())


def test_a_result_without_its_key_is_refused() -> None:
    (refused,) = refusals([grouped(table())], [project(grouped(table()), "c")], {0: 4})
    assert (refused.fate, refused.differs, refused.id) == ("refused", ("primaryKey",), 4)
    assert refused.reason == "the result's key is v, and would be none"


def test_a_result_may_have_more_columns_and_wider_ones() -> None:
    older = project(grouped(table()), "v", "c")
    assert refusals([older], [grouped(table())], {0: 1}) == []
    assert result_key(older) == (("v",), False)


@pytest.mark.parametrize("kind", ["INT", "STRING"])
def test_a_type_that_a_table_cannot_widen_to_is_refused_by_its_column(kind: str) -> None:
    def typed(name: str) -> Project:
        below = grouped(table())
        value = ColumnRef(DataType.parse(name), "c")
        return Project(below, (("v", ColumnRef(DataType.parse("INT"), "v")), ("c", value)))

    (refused,) = refusals([typed("BIGINT")], [typed(kind)], {0: 1})
    assert refused.differs == ("columns/c/type",)
