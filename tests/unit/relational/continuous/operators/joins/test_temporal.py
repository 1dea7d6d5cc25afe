import random
from collections import Counter
from datetime import datetime
from typing import Any

import pytest

from pkray.relational import changelog, query
from pkray.relational.continuous.operators.joins import temporal
from pkray.relational.continuous.operators.windows import recent
from tests.effort import examples
from tests.unit.relational.continuous.event_times import DELAY, at
from tests.unit.relational.continuous.histories import Continuous, Row, kinds_of

LEFT = {"id": "INT", "k": "INT", "t": "TIMESTAMP(3)"}
RIGHT = {"k": "INT", "v": "INT", "u": "TIMESTAMP(3)"}
AS_OF = "SELECT id, l.k, v FROM l {join} r FOR SYSTEM_TIME AS OF l.t ON l.k = r.k{and_}"


def temporal_join(
    join: str = "JOIN", and_: str = "", mode: Any = "insert", **arguments: Any
) -> Continuous:
    delay = "- INTERVAL '5' SECOND"
    sources = {
        "l": changelog(LEFT, mode=mode, watermark=("t", f"t {delay}"), name="l"),
        "r": changelog(
            RIGHT, primary_key=["k"], mode="upsert", watermark=("u", f"u {delay}"), name="r"
        ),
    }
    return Continuous(query(AS_OF.format(join=join, and_=and_), **sources), sources, **arguments)


def left(number: int, k: int | None, t: float, kind: str = "+I") -> dict[str, Any]:
    return {"id": number, "k": k, "t": at(t), "_row_kind": kind}


def right(k: int, v: int | None, u: float, kind: str = "+U") -> dict[str, Any]:
    return {"k": k, "v": v, "u": at(u), "_row_kind": kind}


def passed(run: Continuous, seconds: float) -> list[tuple[str, Row]]:
    """Move the watermark on by rows of no use to others."""
    run.sources["l"].push([left(-1, None, seconds + 5)])
    run.sources["r"].push([right(99, 0, seconds + 5)])
    return [change for change in kinds_of(run.run()) if change[1][0] >= 0]


class History:
    """All versions, and the left rows that wait: what a temporal join gives of them."""

    def __init__(self, outer: bool, least: int | None) -> None:
        self.versions: list[tuple[datetime, int, int | None, int]] = []
        self.waiting: list[dict[str, Any]] = []
        self.given: Counter[Row] = Counter()
        self._outer, self._least = outer, least

    def version(self, row: dict[str, Any]) -> None:
        value = None if row["_row_kind"] == "-D" else row["v"]
        self.versions.append((row["u"], len(self.versions), value, row["k"]))

    def advance(self, watermark: datetime | None) -> None:
        due = [row for row in self.waiting if watermark is None or row["t"] <= watermark]
        self.waiting = [row for row in self.waiting if row not in due]
        for row in due:
            of_key = [each for each in self.versions if each[3] == row["k"] and each[0] <= row["t"]]
            value = max(of_key)[2] if of_key else None
            if value is not None and self._least is not None and value <= self._least:
                value = None
            if value is not None or self._outer:
                self.given[(row["id"], row["k"], value)] += 1


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(examples(12)))
def test_each_left_row_meets_the_version_of_its_time(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(temporal, "MOST_VERSIONS", rng.choice([1, 5, 1 << 20]))
    monkeypatch.setattr(recent, "MOST_BYTES", rng.choice([0, 500, 1 << 20]))
    monkeypatch.setattr(recent, "MOST_RUNS", rng.choice([1, 64]))
    outer, least = rng.random() < 0.5, rng.choice([None, 20])
    run = temporal_join(
        "LEFT JOIN" if outer else "JOIN",
        "" if least is None else f" AND r.v > {least}",
        memory=rng.choice([2 << 10, 64 << 10]),
        parts=rng.choice([1, 3]),
    )
    history = History(outer, least)
    now, marks = 0.0, {"l": None, "r": None}
    for _ in range(8):
        joint = None if None in marks.values() else min(marks.values())
        rows: dict[str, list[dict[str, Any]]] = {"l": [], "r": []}
        for _ in range(rng.randrange(30)):
            now += rng.choice([0, 0, 1, 2])
            time = max(now - rng.choice([0, 0, 1, 4, 15]), 0)
            if rng.random() < 0.5:
                row = left(rng.randrange(1000), rng.choice([None, 0, 0, 1, 2]), time)
                if joint is not None and row["t"] <= joint:
                    continue  # a late one meets what is left
                rows["l"].append(row)
                history.waiting.append(row)
            else:
                row = right(rng.randrange(3), rng.randrange(50), time, rng.choice(["+U", "-D"]))
                rows["r"].append(row)
                history.version(row)
        for name, time_of in (("l", "t"), ("r", "u")):
            run.sources[name].push(rows[name])
            times = [row[time_of] - DELAY for row in rows[name]]
            marks[name] = max([*times, *([marks[name]] if marks[name] else [])], default=None)
        run.run()
        if None not in marks.values():
            history.advance(min(marks.values()))
        assert run.content == history.given
    run.finish()
    history.advance(None)
    assert run.content == history.given


def test_of_versions_of_one_time_the_last_one_holds() -> None:
    run = temporal_join()
    run.push("r", [right(1, 5, 10), right(1, 6, 10)])
    run.push("r", [right(1, 7, 10)])
    run.push("l", [left(0, 1, 10)])
    assert passed(run, 10) == [("+I", (0, 1, 7))]


def test_a_late_left_row_meets_what_is_left_of_the_versions() -> None:
    run = temporal_join("LEFT JOIN")
    run.push("r", [right(1, 5, 1), right(1, 6, 10)])
    passed(run, 20)
    run.push("l", [left(0, 1, 15), left(1, 1, 5)])
    assert set(run.content) >= {(0, 1, 6), (1, 1, None)}


def test_a_late_version_does_not_replace_a_newer_one() -> None:
    run = temporal_join()
    run.push("r", [right(1, 6, 10)])
    passed(run, 20)
    run.push("r", [right(1, 5, 8)])
    run.push("l", [left(0, 1, 21)])
    assert passed(run, 30) == [("+I", (0, 1, 6))]


def test_a_deleted_row_stays_deleted_for_late_versions_before_it() -> None:
    run = temporal_join()
    run.push("r", [right(1, 6, 10), right(1, None, 12, "-D")])
    passed(run, 20)
    run.push("r", [right(1, 5, 8)])
    run.push("l", [left(0, 1, 21)])
    assert passed(run, 30) == []


def test_one_version_a_key_is_kept() -> None:
    run = temporal_join()
    for value in range(20):
        run.push("r", [right(key, value, value) for key in range(3)])
    run.push("l", [left(number, 1, number) for number in range(20)])
    passed(run, 40)
    run.finish()
    assert run.held_rows() == 4  # the three, and the one that moved the watermark


@pytest.mark.parametrize("fired", [False, True])
def test_left_rows_are_taken_back_as_they_came(fired: bool) -> None:
    run = temporal_join("LEFT JOIN", mode="all")
    run.push("r", [right(1, 5, 1), right(1, 6, 10)])
    run.push("l", [left(0, 1, 5), left(0, 1, 5), left(1, 2, 6)])
    if fired:
        assert passed(run, 20) == [("+I", (0, 1, 5)), ("+I", (0, 1, 5)), ("+I", (1, 2, None))]
    given = kinds_of(run.push("l", [left(0, 1, 5, "-D"), left(1, 2, 6, "-D"), left(7, 1, 5, "-D")]))
    assert given == ([("-D", (0, 1, 5)), ("-D", (1, 2, None))] if fired else [])
    passed(run, 20)
    assert {row: n for row, n in run.content.items() if row[0] >= 0} == {(0, 1, 5): 1}


def test_a_deduplicated_view_has_versions() -> None:
    mark = ("u", "u - INTERVAL '5' SECOND")
    sources = {
        "l": changelog(LEFT, watermark=("t", "t - INTERVAL '5' SECOND"), name="l"),
        "changes": changelog(RIGHT, watermark=mark, name="changes"),
    }
    newest = (
        "(SELECT k, v, u FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY u DESC) AS n "
        "FROM changes) WHERE n = 1)"
    )
    sql = f"WITH r AS {newest} " + AS_OF.format(join="JOIN", and_="")
    run = Continuous(query(sql, **sources), sources)
    row = {"_row_kind": "+I"}
    run.push("changes", [{**right(1, v, u), **row} for v, u in ((5, 1), (6, 10), (7, 20))])
    run.push("l", [left(number, 1, time) for number, time in enumerate((0, 2, 10, 19))])
    run.finish()
    assert run.content == {(1, 1, 5): 1, (2, 1, 6): 1, (3, 1, 6): 1}


@pytest.mark.parametrize("mode", ["all", "upsert"])
def test_a_view_of_rows_that_change_has_versions(mode: Any) -> None:
    mark = ("u", "u - INTERVAL '5' SECOND")
    measured = {"id": "INT", **RIGHT}
    sources = {
        "l": changelog(LEFT, watermark=("t", "t - INTERVAL '5' SECOND"), name="l"),
        "changes": changelog(
            measured, mode=mode, primary_key=["id"], watermark=mark, name="changes"
        ),
    }
    newest = (
        "(SELECT k, v, u FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY u DESC) AS n "
        "FROM changes) WHERE n = 1)"
    )
    sql = f"WITH r AS {newest} " + AS_OF.format(join="LEFT JOIN", and_="")
    run = Continuous(query(sql, **sources), sources)

    def measure(number: int, v: int, u: float, kind: str) -> dict[str, Any]:
        return {"id": number, **right(1, v, u, kind)}

    added = "+I" if mode == "all" else "+U"
    run.push(
        "changes", [measure(n, v, u, added) for n, v, u in ((0, 5, 1), (1, 6, 10), (2, 7, 20))]
    )
    run.push("l", [left(number, 1, time) for number, time in enumerate((0, 2, 10, 19))])
    run.push("l", [left(9, None, 15)])  # the watermark is at 10
    moved = [measure(2, 7, 20, "-U"), measure(2, 8, 12, "+U"), measure(1, 6, 10, "-D")]
    run.push("changes", moved if mode == "all" else moved[1:])
    run.push("l", [left(4, 1, 11), left(5, 1, 21)])
    run.finish()
    met = {number: v for number, _, v in run.content}
    assert met == {0: None, 1: 5, 2: 6, 3: 8, 4: None, 5: 8, 9: None}


def test_what_waits_in_memory_is_in_the_states_too() -> None:
    run = temporal_join()
    run.push("r", [right(1, 5, 1), right(1, 6, 10)])
    run.push("l", [left(0, 1, 5), left(1, 1, 10)])  # the watermark is at 5
    assert run.held_rows() == 3  # the left row and the version of 10, and the version of 1
