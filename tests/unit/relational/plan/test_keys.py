"""Unique and upsert keys of every kind of node."""

import pytest

from pkray.relational.plan import nodes
from pkray.relational.plan.expressions import Cast, SortKey
from pkray.relational.plan.keys import best_key, unique_keys, upsert_keys
from pkray.schema.types import DataType
from tests.unit.relational.plan.sample_plans import count, project, ref, scan, where

L = scan("a INT NOT NULL, b INT, t* TIMESTAMP(3)", "a", "all")
R = scan("x INT NOT NULL, y INT", "x", "all")
NAMES = ("x", "y")


def join(kind: nodes.JoinKind, left: str, right: str) -> nodes.Join:
    return nodes.Join(L, R, kind, (left,), (right,), NAMES)


def window(kind: nodes.WindowKind) -> nodes.Window:
    return nodes.Window(L, kind, "t", 10_000_000, 5_000_000)


by_b = (SortKey("b"),)
CASES = [
    ("a source's key", L, "a"),
    ("a source without one", scan("a INT"), None),
    ("a key column that is not read", project(L, "b"), None),
    ("a renamed key", project(L, "b", k=ref(L, "a")), "k"),
    ("a key under two names", project(L, "a", k=ref(L, "a")), "a | k"),
    ("a widened key", project(L, k=Cast(DataType("BIGINT", False), ref(L, "a"))), "k"),
    ("a narrowed key", project(L, k=Cast(DataType("SMALLINT", False), ref(L, "a"))), None),
    ("a filter", where(L, "b"), "a"),
    ("groups", count(L, "b"), "b"),
    ("groups that hold a key", count(L, "a", "b"), "a"),
    ("a global aggregate", count(L), ""),
    ("distinct rows", nodes.Distinct(project(L, "b")), "b"),
    ("distinct rows with a key", nodes.Distinct(L), "a"),
    ("grouping sets over other columns", nodes.Expand(L, ("b",), ((0,), ()), "$e"), "a $e"),
    ("grouping sets over the key", nodes.Expand(L, ("a",), ((0,), ()), "$e"), None),
    ("one row", nodes.Limit(L, 1), ""),
    ("a sort", nodes.Sort(L, by_b), "a"),
    ("top rows", nodes.TopN(L, ("b",), by_b, 1, 3), "a"),
    ("top rows with rank", nodes.TopN(project(L, "b"), ("b",), by_b, 1, 3, "n"), "b n"),
    ("the first row", nodes.TopN(project(L, "b"), ("b",), by_b, 1, 1), "b"),
    ("the third row", nodes.TopN(project(L, "b"), ("b",), by_b, 3, 3), "b"),
    ("deduplication", nodes.Deduplicate(project(L, "b", "t"), ("b",), "t", True), "b"),
    ("over", nodes.Over(L, ("b",), (), ()), "a"),
    ("tumbling windows", window(nodes.WindowKind.TUMBLE), "a"),
    ("hopping windows", window(nodes.WindowKind.HOP), "a window_start"),
    ("cumulating windows", window(nodes.WindowKind.CUMULATE), "a window_end"),
    ("normalization", nodes.Normalize(scan("a INT, b INT"), ("a",)), "a"),
    ("union all", nodes.SetOperation(L, L, nodes.SetKind.UNION, True), None),
    (
        "union",
        nodes.SetOperation(project(L, "b"), project(R, "y"), nodes.SetKind.UNION, False),
        "b",
    ),
    ("except", nodes.SetOperation(L, L, nodes.SetKind.EXCEPT, False), "a"),
    (
        "intersect",
        nodes.SetOperation(project(L, "b"), project(R, "x"), nodes.SetKind.INTERSECT, True),
        "b",
    ),
    ("explode", nodes.Unnest(L, "explode", ("b",), ("e",), (DataType("INT"),)), None),
    ("join on both keys", join(nodes.JoinKind.INNER, "a", "x"), "a | x"),
    ("join on the right key", join(nodes.JoinKind.INNER, "b", "x"), "a"),
    ("join on the left key", join(nodes.JoinKind.INNER, "a", "y"), "x"),
    ("join on neither key", join(nodes.JoinKind.INNER, "b", "y"), "a x"),
    ("left join on the right key", join(nodes.JoinKind.LEFT, "b", "x"), "a"),
    ("left join on the left key", join(nodes.JoinKind.LEFT, "a", "y"), "a x"),
    ("right join on the left key", join(nodes.JoinKind.RIGHT, "a", "y"), "x"),
    ("full join", join(nodes.JoinKind.FULL, "b", "y"), "a x"),
    ("semi join", join(nodes.JoinKind.SEMI, "b", "y"), "a"),
    ("anti join", join(nodes.JoinKind.ANTI, "b", "y"), "a"),
    ("scalar subquery", join(nodes.JoinKind.SINGLE, "b", "y"), "a"),
]


@pytest.mark.parametrize(("node", "keys"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_unique_keys_of(node: nodes.Node, keys: str | None) -> None:
    expected = () if keys is None else [frozenset(each.split()) for each in keys.split("|")]
    assert unique_keys(node) == set(expected)


def test_an_upsert_key_covers_the_columns_by_which_rows_were_brought_together() -> None:
    spread = nodes.Exchange(L, ("b",))
    assert unique_keys(spread) == {frozenset("a")}
    assert upsert_keys(spread) == set()
    assert upsert_keys(nodes.Exchange(L, ("a",))) == {frozenset("a")}


def test_the_best_key_has_no_nulls_and_few_columns() -> None:
    keys = frozenset({frozenset({"b"}), frozenset({"a"}), frozenset({"a", "t"})})
    assert best_key(L, keys) == ("a",)


def test_aggregates_of_a_join_keep_the_group_key() -> None:
    assert unique_keys(nodes.Aggregate(join(nodes.JoinKind.INNER, "b", "x"), ("y",), ())) == {
        frozenset("y")
    }
