import pytest

from pkray.relational import changelog, query
from tests.unit.relational.continuous.histories import Continuous, kinds_of

LOOKUP = "SELECT l.k, l.v, w FROM l {kind} r FOR SYSTEM_TIME AS OF l.at ON l.k = r.k{and_}"


def looked_up(kind: str, and_: str = "") -> Continuous:
    sources = {
        "l": changelog({"k": "INT", "v": "INT", "at": "TIMESTAMP"}, mode="all", name="l"),
        "r": changelog({"k": "INT", "w": "INT"}, primary_key=["k"], mode="upsert", name="r"),
    }
    return Continuous(query(LOOKUP.format(kind=kind, and_=and_), **sources), sources)


def left(kind: str, k: int | None, v: int) -> dict[str, object]:
    return {"k": k, "v": v, "at": None, "_row_kind": kind}


def right(kind: str, k: int, w: int | None) -> dict[str, object]:
    return {"k": k, "w": w, "_row_kind": kind}


def test_left_rows_meet_the_right_side_as_it_is_and_its_changes_give_nothing() -> None:
    run = looked_up("JOIN")
    run.push("r", [right("+I", 1, 5)])
    assert kinds_of(run.push("l", [left("+I", 1, 0)])) == [("+I", (1, 0, 5))]
    assert not len(run.push("r", [right("+U", 1, 6)]))
    assert kinds_of(run.push("l", [left("+I", 1, 1)])) == [("+I", (1, 1, 6))]
    run.push("r", [right("-D", 1, None)])
    assert not len(run.push("l", [left("+I", 1, 2)]))


def test_rows_of_one_epoch_meet_what_the_epoch_brings() -> None:
    run = looked_up("JOIN")
    run.sources["r"].push([right("+I", 1, 5)])
    assert kinds_of(run.push("l", [left("+I", 1, 0)])) == [("+I", (1, 0, 5))]


def test_kinds_of_left_rows_pass() -> None:
    run = looked_up("JOIN")
    run.push("r", [right("+I", 1, 5)])
    run.push("l", [left("+I", 1, 0)])
    made = run.push("l", [left("-U", 1, 0), left("+U", 1, 1), left("-D", 1, 1)])
    assert kinds_of(made) == [("-U", (1, 0, 5)), ("+U", (1, 1, 5)), ("-D", (1, 1, 5))]


@pytest.mark.parametrize("key", [None, 2])
def test_a_left_lookup_keeps_rows_without_a_match_in_their_order(key: int | None) -> None:
    run = looked_up("LEFT JOIN")
    run.push("r", [right("+I", 1, 5)])
    made = run.push("l", [left("+I", 1, 0), left("+I", key, 1), left("+I", 1, 2)])
    assert kinds_of(made) == [
        ("+I", (1, 0, 5)),
        ("+I", (key, 1, None)),
        ("+I", (1, 2, 5)),
    ]


def test_a_further_condition_decides_what_matches() -> None:
    run = looked_up("LEFT JOIN", " AND r.w > l.v")
    run.push("r", [right("+I", 1, 5)])
    made = run.push("l", [left("+I", 1, 4), left("+I", 1, 5)])
    assert kinds_of(made) == [("+I", (1, 4, 5)), ("+I", (1, 5, None))]
