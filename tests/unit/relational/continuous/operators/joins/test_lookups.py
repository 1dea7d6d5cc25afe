import random
from typing import Any

import pytest

from pkray.errors import QueryError, UnsupportedError
from pkray.relational import changelog, query
from pkray.relational.continuous.operators.joins.join_sides import Asked, Held, KeptSide
from pkray.relational.plan.nodes import Hint
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
    assert kinds_of(made) == [("+I", (1, 0, 5)), ("+I", (key, 1, None)), ("+I", (1, 2, 5))]


def test_a_further_condition_decides_what_matches() -> None:
    run = looked_up("LEFT JOIN", " AND r.w > l.v")
    run.push("r", [right("+I", 1, 5)])
    made = run.push("l", [left("+I", 1, 4), left("+I", 1, 5)])
    assert kinds_of(made) == [("+I", (1, 4, 5)), ("+I", (1, 5, None))]


RETRY = (
    "'retry-predicate'='lookup_miss', 'retry-strategy'='fixed_delay', 'fixed-delay'='10 ms', "
    "'max-attempts'='2'"
)


def hinted(options: str, kind: str = "LEFT JOIN", mode: str = "insert") -> Continuous:
    sources = {
        "l": changelog({"k": "INT", "v": "INT", "at": "TIMESTAMP"}, mode=mode, name="l"),
        "r": changelog({"k": "INT", "w": "INT"}, primary_key=["k"], mode="upsert", name="r"),
    }
    hint = f"SELECT /*+ LOOKUP('table'='r', {options}) */"
    text = LOOKUP.format(kind=kind, and_="").replace("SELECT", hint)
    return Continuous(query(text, **sources), sources)


def test_a_row_whose_key_is_not_there_is_looked_up_again() -> None:
    run = hinted(RETRY)
    assert not len(run.push("l", [left("+I", 1, 0), left("+I", 2, 0)], time=100))
    assert run.graph.wakes_at == 110
    run.push("r", [right("+I", 1, 5)], time=105)
    assert run.content == {}
    assert kinds_of(run.run(time=110)) == [("+I", (1, 0, 5))]
    assert kinds_of(run.run(time=119)) == []
    assert kinds_of(run.run(time=120)) == [("+I", (2, 0, None))]
    assert run.graph.wakes_at is None


def test_nothing_waits_longer_than_its_sources_change() -> None:
    run = hinted(RETRY, "JOIN")
    run.push("l", [left("+I", 1, 0)], time=100)
    run.sources["r"].push([right("+I", 1, 5)])
    assert kinds_of(run.finish()) == [("+I", (1, 0, 5))]


def test_a_row_without_a_key_is_not_looked_up_again() -> None:
    assert kinds_of(hinted(RETRY).push("l", [left("+I", None, 0)])) == [("+I", (None, 0, None))]


def test_rows_that_may_be_taken_back_are_not_looked_up_again() -> None:
    with pytest.raises(UnsupportedError, match="'max-attempts'"):
        hinted(RETRY, mode="all")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ttl", ["", ", 'cache.ttl'='10 ms'"])
def test_rows_that_are_remembered_are_those_that_are_there(ttl: str) -> None:
    rng = random.Random(7)
    run, plain = hinted(f"'cache.max-rows'='3'{ttl}"), looked_up("LEFT JOIN")
    for time in range(0, 150, 5):
        for each in (run, plain):
            each.sources["r"].push([])
        key, kind = rng.randrange(6), rng.choice(["+U", "-D"])
        rows = [left("+I", rng.randrange(6), time) for _ in range(4)]
        for each in (run, plain):
            each.sources["r"].push([right(kind, key, time)])
            each.push("l", rows, time)
        assert run.content == plain.content


def test_a_key_that_is_remembered_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    find = KeptSide.held

    def held(side: KeptSide, keys: Asked, **arguments: Any) -> Held:
        asked.append(len(keys.keys))
        return find(side, keys, **arguments)

    monkeypatch.setattr(KeptSide, "held", held)
    run = hinted("'cache.max-rows'='2', 'cache.ttl'='10 ms'")
    run.push("r", [right("+I", k, k) for k in range(5)])
    for time, keys in ((0, [1, 2]), (1, [1, 2]), (2, [3]), (3, [1, 3]), (20, [3])):
        run.push("l", [left("+I", k, time) for k in keys], time)
    assert asked == [2, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("'async'='true'", "no option 'async'"),
        ("'cache.ttl'='1 s'", "'cache.ttl' without 'cache.max-rows'"),
        ("'max-attempts'='3'", "'max-attempts' without 'retry-predicate'"),
        ("'cache.max-rows'='many'", "cannot be 'many'"),
        (RETRY.replace("fixed_delay", "exponential"), "write 'fixed_delay'"),
        (RETRY.replace("10 ms", "soon"), "cannot be 'soon'"),
    ],
)
def test_options_without_a_meaning_are_refused_by_name(options: str, told: str) -> None:
    with pytest.raises(QueryError, match=told):
        hinted(options)


def test_a_hint_of_a_table_that_is_not_looked_up_is_refused() -> None:
    tables = {name: changelog({"k": "INT"}, name=name) for name in "lr"}
    text = "SELECT /*+ LOOKUP('table'='r', 'cache.max-rows'='3') */ l.k FROM l JOIN r ON l.k = r.k"
    with pytest.raises(QueryError, match="names r, which is not looked up"):
        query(text, **tables)


def test_a_lookup_is_hinted_from_python() -> None:
    run = looked_up("JOIN")
    rows, table = run.sources["l"], run.sources["r"]
    joined = rows.join(table.as_of(rows["at"]), "k", how="left")
    hint = {"table": "r", "cache.max-rows": "3"}
    options = [
        node.options for node in joined.hint("LOOKUP", hint).plan.walk() if isinstance(node, Hint)
    ]
    assert options == [(("cache.max-rows", "3"),)]


def test_a_stream_gives_what_waited_though_nothing_changes() -> None:
    run, now = hinted(RETRY), 100
    with run.relation.stream(encoding="append", clock=lambda: now) as stream:
        run.sources["l"].push([left("+I", 1, 0)])
        assert stream.poll() is None
        run.sources["r"].push([right("+I", 1, 5)])
        assert stream.poll() is None
        now = 110
        batch = stream.poll()
    assert batch is not None
    assert batch.column("w").to_pylist() == [5]
