"""The kinds of changes that flow between nodes."""

import pytest

from pkray.relational.plan.changelog_modes import changelog_modes
from pkray.relational.plan.expressions import Frame, SortKey, WindowCall
from pkray.relational.plan.nodes import (
    BIGINT,
    Deduplicate,
    Distinct,
    IntervalJoin,
    Join,
    JoinKind,
    Limit,
    Node,
    Normalize,
    Over,
    SetKind,
    SetOperation,
    Sort,
    TemporalJoin,
    TopN,
    Window,
    WindowKind,
)
from pkray.relational.plan.physical import to_logical, to_physical
from tests.unit.relational.plan.sample_plans import count, project, scan, where

APPEND = scan("a INT NOT NULL, b INT, t* TIMESTAMP(3)")
KEYED = scan("a INT NOT NULL, b INT, t* TIMESTAMP(3)", "a", "all")
UPSERT = scan("a INT NOT NULL, b INT, t* TIMESTAMP(3)", "a", "upsert")
NAMES = ("a0", "b0", "t0")
BY_B = (SortKey("b"),)


def join(kind: JoinKind, left: Node, right: Node, key: str = "b") -> Join:
    return Join(left, right, kind, (key,), (key,), NAMES)


def windowed(node: Node) -> Node:
    return count(
        Window(node, WindowKind.TUMBLE, "t", 10_000_000), "window_start", "window_end", "b"
    )


def over(function: str, order: tuple[SortKey, ...]) -> Over:
    call = WindowCall(function, ("b",) if function == "lead" else (), BIGINT, Frame.WHOLE)
    return Over(APPEND, ("a",), order, (("n", call),))


CASES = [
    ("a source of rows", APPEND, "[I]"),
    ("a source of changes", KEYED, "[I,UA,D]"),
    ("a filter of rows", where(APPEND, "b"), "[I]"),
    ("a filter of changes", where(KEYED, "b"), "[I,UB,UA,D]"),
    ("a projection", project(KEYED, "a"), "[I,UA,D]"),
    ("groups of rows", count(APPEND, "b"), "[I,UA]"),
    ("groups of changes", count(KEYED, "b"), "[I,UA,D]"),
    ("windows of rows", windowed(APPEND), "[I]"),
    ("windows of changes", windowed(KEYED), "[I]"),
    ("distinct rows", Distinct(APPEND), "[I]"),
    ("distinct changes", Distinct(KEYED), "[I,UA,D]"),
    ("inner join of rows", join(JoinKind.INNER, APPEND, APPEND), "[I]"),
    ("inner join with changes", join(JoinKind.INNER, APPEND, KEYED), "[I,UB,UA,D]"),
    ("left join of rows", join(JoinKind.LEFT, APPEND, APPEND), "[I,UA,D]"),
    ("semi join of rows", join(JoinKind.SEMI, APPEND, APPEND), "[I]"),
    ("anti join of rows", join(JoinKind.ANTI, APPEND, APPEND), "[I,UA,D]"),
    ("top rows", TopN(APPEND, ("a",), BY_B, 1, 2), "[I,UA,D]"),
    ("first by arrival", Deduplicate(APPEND, ("a",), None, True), "[I]"),
    ("last by arrival", Deduplicate(APPEND, ("a",), None, False), "[I,UA]"),
    ("first by time", Deduplicate(APPEND, ("a",), "t", True), "[I]"),
    ("first by another column", Deduplicate(APPEND, ("a",), "b", True), "[I,UA,D]"),
    ("last by time", Deduplicate(APPEND, ("a",), "t", False), "[I,UA,D]"),
    ("union of rows", SetOperation(APPEND, APPEND, SetKind.UNION, True), "[I]"),
    ("distinct rows of a union", SetOperation(APPEND, APPEND, SetKind.UNION, False), "[I]"),
    (
        "distinct rows of updates",  # the old row of an update may have been the last of its kind
        SetOperation(project(count(APPEND, "b"), "c"), project(APPEND, "b"), SetKind.UNION, False),
        "[I,UA,D]",
    ),
    ("union with changes", SetOperation(APPEND, KEYED, SetKind.UNION, True), "[I,UA,D]"),
    ("except", SetOperation(APPEND, APPEND, SetKind.EXCEPT, True), "[I,UA,D]"),
    ("first rows in order", Limit(Sort(APPEND, BY_B), 2), "[I,UA,D]"),
    ("any rows", Limit(APPEND, 2), "[I]"),
    ("any rows of changes", Limit(KEYED, 2), "[I,UA,D]"),
    ("over, in any order", over("row_number", BY_B), "[I,UA,D]"),
    ("over, as rows come", over("row_number", ()), "[I]"),
    ("over, with later rows", over("lead", ()), "[I,UA,D]"),
    (
        "interval join",
        IntervalJoin(APPEND, APPEND, JoinKind.LEFT, ("a",), ("a",), NAMES, "t", "t", 0, 9),
        "[I]",
    ),
    (
        "temporal join",
        TemporalJoin(APPEND, UPSERT, JoinKind.LEFT, ("a",), ("a",), NAMES, "t", "t"),
        "[I]",
    ),
]


@pytest.mark.parametrize(("node", "mode"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_a_node_gives(node: Node, mode: str) -> None:
    assert str(changelog_modes(node, before=False)[id(node)]) == mode


NEEDS = [
    ("a projection for an upsert", project(KEYED, "a"), False),
    ("a filter on the key", where(KEYED, "a"), False),
    ("a filter on another column", where(KEYED, "b"), True),
    ("groups", count(KEYED, "b"), True),
    ("top rows", TopN(KEYED, ("b",), BY_B, 1, 2), True),
    ("a join by the key", join(JoinKind.INNER, KEYED, KEYED, "a"), False),
    ("a join by another column", join(JoinKind.INNER, KEYED, KEYED), True),
    ("distinct rows", Distinct(KEYED), True),
]


@pytest.mark.parametrize(("node", "needs"), [c[1:] for c in NEEDS], ids=[c[0] for c in NEEDS])
def test_who_needs_the_rows_before_updates(node: Node, needs: bool) -> None:
    assert changelog_modes(node, before=False)[id(KEYED)].before is needs


def test_whoever_takes_pairs_of_updates_gets_them_from_below() -> None:
    node = project(KEYED, "a")
    modes = changelog_modes(node, before=True)
    assert [str(modes[id(each)]) for each in node.walk()] == ["[I,UB,UA,D]", "[I,UB,UA,D]"]


def test_a_source_without_rows_before_updates_is_normalized_where_they_are_needed() -> None:
    physical = to_physical(count(UPSERT, "b"), before=False)
    names = [type(each).__name__ for each in physical.walk()]
    assert names == ["Aggregate", "Exchange", "Normalize", "Exchange", "Scan"]


def test_a_source_without_rows_before_updates_is_left_alone_where_nothing_needs_them() -> None:
    physical = to_physical(project(UPSERT, "a", "b"), before=False, by_key=True)
    assert not any(isinstance(each, Normalize) for each in physical.walk())


def test_a_source_is_normalized_where_its_deletes_reach_who_needs_whole_rows() -> None:
    physical = to_physical(project(UPSERT, "b"), before=False)
    assert [type(each).__name__ for each in physical.walk()][1:] == [
        "Normalize",
        "Exchange",
        "Scan",
    ]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_the_physical_plan_without_what_it_adds_is_the_plan(case: tuple[str, Node, str]) -> None:
    assert to_logical(to_physical(case[1], before=True)) == case[1]
