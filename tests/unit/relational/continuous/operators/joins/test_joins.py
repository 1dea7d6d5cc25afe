import random
from functools import partial

import pytest

from pkray.errors import EvaluationError
from pkray.relational import changelog, query
from pkray.relational.continuous.operators.joins import join_pairs
from tests.effort import EFFORT
from tests.unit.relational.continuous.histories import (
    Continuous,
    RandomHistory,
    hashes_alike,
    kinds_of,
)

KINDS = {
    "inner": "SELECT {both} FROM l JOIN r ON {on}",
    "left": "SELECT {both} FROM l LEFT JOIN r ON {on}",
    "right": "SELECT {both} FROM l RIGHT JOIN r ON {on}",
    "full": "SELECT {both} FROM l FULL JOIN r ON {on}",
    "semi": "SELECT * FROM l LEFT SEMI JOIN r ON {on}",
    "anti": "SELECT * FROM l LEFT ANTI JOIN r ON {on}",
    "mark": "SELECT l.*, EXISTS (SELECT 1 FROM r WHERE {on}) AS m FROM l",
}
IN = {
    "in": "SELECT l.* FROM l WHERE k {is_in} (SELECT k FROM r)",
    "in group": "SELECT l.* FROM l WHERE k {is_in} (SELECT k FROM r WHERE r.b = l.b)",
    "in condition": "SELECT l.* FROM l WHERE k {is_in} (SELECT k FROM r WHERE r.w > l.v)",
    "in marked": "SELECT l.*, k {is_in} (SELECT k FROM r) AS m FROM l",
    "in group marked": "SELECT l.*, k {is_in} (SELECT k FROM r WHERE r.b = l.b) AS m FROM l",
    "in or": "SELECT l.* FROM l WHERE k {is_in} (SELECT k FROM r WHERE r.w > l.v) OR v = 1",
}
CONDITIONS = {
    "key": "l.k = r.k",
    "two keys": "l.k = r.k AND l.b = r.b",
    "null safe": "l.k <=> r.k",
    "condition": "l.k = r.k AND l.v < r.w",
    "one side": "l.k = r.k AND l.v > 1",
    "none": "l.v < r.w",
}
LEFT = {"id": "INT", "k": "INT", "b": "DOUBLE", "v": "INT"}
RIGHT = {"id": "INT", "k": "INT", "b": "DOUBLE", "w": "INT"}


def row(rng: random.Random, value: str) -> dict[str, object]:
    return {
        "id": rng.randrange(3),
        "k": rng.choice([None, 1, 2, 3, 4]),
        "b": rng.choice([None, 0.0, -0.0, float("nan"), 1.5]),
        value: rng.choice([None, *range(4)]),
    }


@pytest.mark.sampled(9)
@pytest.mark.parametrize("on", CONDITIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2 * EFFORT))
def test_a_join_follows_both_sides(kind: str, on: str, seed: int) -> None:
    both = "l.id, l.k, l.b, v, r.id AS rid, r.k AS rk, w"
    follows(KINDS[kind].format(both=both, on=CONDITIONS[on]), f"{kind} {on} {seed}")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("is_in", ["IN", "NOT IN"])
@pytest.mark.parametrize("kind", IN)
@pytest.mark.parametrize("seed", range(3 * EFFORT))
def test_what_is_in_the_other_side_follows_both_sides(kind: str, is_in: str, seed: int) -> None:
    follows(IN[kind].format(is_in=is_in), f"{kind} {is_in} {seed}")


def test_pairs_are_checked_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_pairs, "BLOCK_PAIRS", 5)
    follows(KINDS["full"].format(both="v, w", on="l.v < r.w"), "blocks")


def follows(text: str, seed: str) -> None:
    rng = random.Random(seed)
    keyed, appends = rng.choice(["", "l", "r", "lr"]), rng.choice(["", "", "l", "r", "lr"])
    sources, histories = {}, {}
    for name, columns, value in (("l", LEFT, "v"), ("r", RIGHT, "w")):
        key = ["id"] if name in keyed else None
        mode = "insert" if name in appends else "all"
        sources[name] = changelog(columns, primary_key=key, mode=mode, name=name)
        histories[name] = RandomHistory(rng, partial(row, value=value), keyed=key is not None)
    parts, ttl = rng.choice([1, 3]), rng.choice(["0 ms", "1 h"])
    run = Continuous(query(text, **sources), sources, parts=parts, memory=16 << 10, ttl=ttl)
    restarts = rng.randrange(2, 5)
    with hashes_alike():
        for epoch, sizes in enumerate(((3, 0), (0, 3), (1, 1), (10, 10), (7, 5), (2, 20))):
            if epoch == restarts:
                run.restart()
            for name, size in zip("lr", sizes, strict=True):
                if size:
                    sources[name].push(histories[name].epoch(size, inserts=name in appends))
            run.run()
            run.check()


def joined(text: str, ttl: str = "0 ms", **keys: list[str] | None) -> Continuous:
    modes = {name: "upsert" if key else "all" for name, key in keys.items()}
    sources = {
        name: changelog({"k": "INT", "v": "INT"}, primary_key=key, mode=modes[name], name=name)
        for name, key in keys.items()
    }
    return Continuous(query(text, **sources), sources, ttl=ttl, before=not any(keys.values()))


def change(kind: str, k: int | None, v: int | None) -> dict[str, object]:
    return {"k": k, "v": v, "_row_kind": kind}


LEFT_JOIN = "SELECT l.k, l.v, r.v AS w FROM l LEFT JOIN r ON l.k = r.k"


def test_a_left_join_pads_until_the_first_match_and_after_the_last() -> None:
    run = joined(LEFT_JOIN, l=None, r=None)
    assert kinds_of(run.push("l", [change("+I", 1, 0)])) == [("+I", (1, 0, None))]
    made = run.push("r", [change("+I", 1, 5)])
    assert kinds_of(made) == [("-D", (1, 0, None)), ("+I", (1, 0, 5))]
    assert kinds_of(run.push("r", [change("+I", 1, 6)])) == [("+I", (1, 0, 6))]
    assert kinds_of(run.push("r", [change("-U", 1, 5)])) == [("-U", (1, 0, 5))]
    assert kinds_of(run.push("r", [change("+U", 1, 7)])) == [("+I", (1, 0, 7))]
    assert kinds_of(run.push("r", [change("-D", 1, 6)])) == [("-D", (1, 0, 6))]
    made = run.push("r", [change("-D", 1, 7)])
    assert kinds_of(made) == [("-D", (1, 0, 7)), ("+I", (1, 0, None))]


def test_a_match_that_is_replaced_in_one_epoch_pads_nothing() -> None:
    run = joined(LEFT_JOIN, l=None, r=None)
    run.push("l", [change("+I", 1, 0)])
    run.push("r", [change("+I", 1, 5)])
    made = run.push("r", [change("-U", 1, 5), change("+U", 1, 6)])
    assert kinds_of(made) == [("-U", (1, 0, 5)), ("+I", (1, 0, 6))]


def test_a_row_that_an_upsert_replaces_is_counted_once() -> None:
    run = joined(LEFT_JOIN, l=None, r=["k"])
    run.push("l", [change("+I", 1, 0)])
    for value in (5, 6, 7):
        run.push("r", [change("+U", 1, value)])
        assert dict(run.content) == {(1, 0, value): 1}
    run.push("r", [change("-D", 1, None)])
    assert dict(run.content) == {(1, 0, None): 1}


def test_rows_without_a_match_stay_when_the_left_side_is_upserted() -> None:
    run = joined(LEFT_JOIN, l=["k"], r=["k"])
    run.push("l", [change("+I", 1, 0), change("+I", 2, 0)])
    run.push("r", [change("+U", 1, 5)])
    run.push("l", [change("+U", 1, 1), change("+U", 2, 1)])
    assert dict(run.content) == {(1, 1, 5): 1, (2, 1, None): 1}
    run.push("r", [change("-D", 1, None)])
    assert dict(run.content) == {(1, 1, None): 1, (2, 1, None): 1}


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "FULL JOIN", "LEFT ANTI JOIN"])
def test_a_retraction_of_an_unknown_row_is_swallowed_alone(kind: str) -> None:
    columns = "l.k, l.v" if "ANTI" in kind else "l.k, l.v, r.v AS w"
    run = joined(f"SELECT {columns} FROM l {kind} r ON l.k = r.k", l=None, r=None)
    run.push("l", [change("+I", 1, 0), change("+I", 2, 0)])
    run.push("r", [change("-D", 1, 9), change("+I", 1, 5), change("-U", 2, 9)])
    run.push("r", [change("-D", 1, 9)])
    run.push("l", [change("-D", 2, 9), change("-D", 1, 0)])
    run.check()


def test_a_self_join_reads_one_snapshot() -> None:
    run = joined("SELECT a.k, a.v, b.v AS w FROM l a JOIN l b ON a.k = b.k", l=None)
    run.push("l", [change("+I", 1, 0), change("+I", 1, 1)])
    run.check()
    run.push("l", [change("-U", 1, 0), change("+U", 1, 2), change("+I", 2, 0)])
    run.check()
    assert len(run.content) == 5


def test_a_scalar_subquery_with_two_rows_names_the_row() -> None:
    run = joined("SELECT l.k, (SELECT r.v FROM r WHERE r.k = l.k) AS w FROM l", l=None, r=None)
    run.push("l", [change("+I", 7, 0)])
    run.push("r", [change("+I", 7, 5)])
    run.push("r", [change("-D", 7, 5), change("+I", 7, 6)])
    run.check()
    with pytest.raises(EvaluationError, match=r"more than one row for .*7"):
        run.push("r", [change("+I", 7, 8)])


def test_two_rows_for_a_row_that_goes_in_the_same_epoch_are_no_error() -> None:
    run = joined("SELECT l.k, (SELECT r.v FROM r WHERE r.k = l.k) AS w FROM l", l=None, r=None)
    run.push("l", [change("+I", 7, 0)])
    run.sources["l"].push([change("-D", 7, 0)])
    run.push("r", [change("+I", 7, 5), change("+I", 7, 6)])
    assert not run.content


def test_a_match_renews_the_row_whose_matches_are_counted() -> None:
    run = joined(LEFT_JOIN, ttl="1000 ms", l=None, r=None)
    run.push("l", [change("+I", 1, 0), change("+I", 2, 0)], time=0)
    run.push("r", [change("+I", 1, 5)], time=800)
    made = run.push("r", [change("+I", 1, 6), change("+I", 2, 6)], time=1500)
    assert kinds_of(made) == [("+I", (1, 0, 6))]


def test_a_first_null_on_the_right_empties_not_in_until_it_goes() -> None:
    run = joined("SELECT l.k FROM l WHERE l.k NOT IN (SELECT k FROM r)", l=None, r=None)
    run.push("l", [change("+I", 1, 0), change("+I", None, 0)])
    assert dict(run.content) == {(1,): 1, (None,): 1}
    run.push("r", [change("+I", 2, 0)])
    assert dict(run.content) == {(1,): 1}
    made = run.push("r", [change("+I", None, 0)])
    assert kinds_of(made) == [("-D", (1,))]
    made = run.push("r", [change("-D", None, 0), change("-D", 2, 0)])
    assert sorted(kinds_of(made), key=str) == [("+I", (1,)), ("+I", (None,))]


def test_rows_leave_not_in_though_the_hashes_of_two_keys_are_alike() -> None:
    sources = {
        "l": changelog({"k": "BIGINT", "v": "BIGINT"}, primary_key=["k"], mode="all", name="l"),
        "r": changelog({"w": "BIGINT"}, mode="all", name="r"),
    }
    text = "SELECT k FROM l WHERE v NOT IN (SELECT w FROM r)"
    run = Continuous(query(text, **sources), sources, ttl="1 h")
    sources["r"].push([{"w": 1, "_row_kind": "+I"}])
    keys = [0, 2, 5, 9, 11, 13, 15, 16, 18, 20, 21, 22, 23, 24, 25, 27, 34, 37, 38]
    run.push("l", [change("+I", key, 50) for key in keys])  # 0 and 9 have the same hash
    run.restart()
    moved = [change(kind, k, v) for k in (0, 5, 15, 22, 34) for kind, v in (("-U", 50), ("+U", 60))]
    gone = [change("-D", 21, 50), change("-U", 16, 50), change("+U", 16, None)]
    run.push("l", [*moved, *gone, change("+I", 36, None)])
    assert sorted(run.content) == [(key,) for key in keys if key not in (16, 21)]


def test_a_second_row_that_replaces_the_first_in_another_part_is_no_error() -> None:
    run = joined("SELECT l.k, (SELECT r.v FROM r WHERE r.k = l.k) AS w FROM l", l=None, r=None)
    run.push("l", [change("+I", 7, 0)])
    run.push("r", [change("+I", 7, 5)])
    run.parts = 2
    run.push("r", [change("+I", 7, 6), change("-D", 7, 5)])
    assert dict(run.content) == {(7, 6): 1}
