"""What waits for event time goes on with more and with fewer workers."""

import random
from datetime import timedelta
from typing import Any

import pytest

from pkray.relational import changelog, query
from tests.unit.relational.continuous.event_times import at
from tests.unit.relational.continuous.parallel.teams import Workers

TVF = "TUMBLE(TABLE {t}, DESCRIPTOR(at), INTERVAL '10' SECOND)"
HOP = "HOP(TABLE l, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '15' SECOND)"
SESSION = "SESSION(TABLE l PARTITION BY k, DESCRIPTOR(at), INTERVAL '3' SECOND)"
BOUNDS = "window_start, window_end"
ON = "a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end"
RANKED = (
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {order}) AS n FROM {t})"
    " WHERE n <= {most}"
)
QUERIES = {
    "tumble": f"SELECT k, SUM(v) AS s, COUNT(DISTINCT v) AS n, {BOUNDS}"
    f" FROM TABLE({TVF.format(t='l')}) GROUP BY k, {BOUNDS}",
    "hop": f"SELECT k, MAX(v) AS m, COUNT(*) AS n, {BOUNDS} FROM TABLE({HOP}) GROUP BY k, {BOUNDS}",
    "session": f"SELECT k, SUM(v) AS s, COUNT(DISTINCT v) AS n, {BOUNDS}"
    f" FROM TABLE({SESSION}) GROUP BY k, {BOUNDS}",
    "sessions": f"SELECT k, v, at, {BOUNDS} FROM TABLE({SESSION})",
    "join": f"SELECT a.k, a.v, b.v AS w, a.window_end FROM TABLE({TVF.format(t='l')}) a"
    f" FULL JOIN TABLE({TVF.format(t='r')}) b ON {ON}",
    "top": RANKED.format(by=f"k, {BOUNDS}", order="v, at", t=f"TABLE({TVF.format(t='l')})", most=2),
    "first": RANKED.format(by="k", order="at", t="l", most=1),
    "interval": "SELECT l.k, l.v, r.v AS w FROM l LEFT JOIN r ON l.k = r.k"
    " AND l.at BETWEEN r.at - INTERVAL '4' SECOND AND r.at + INTERVAL '3' SECOND",
    "temporal": "SELECT l.k, l.v, c.v AS w FROM l LEFT JOIN c FOR SYSTEM_TIME AS OF l.at"
    " ON l.k = c.k",
    "sums so far": "SELECT k, v, at, SUM(v) OVER (PARTITION BY k ORDER BY at) AS s, AVG(v) OVER"
    " (PARTITION BY k ORDER BY at) AS a FROM l",
    "near rows": "SELECT k, v, at, LAG(v, 2) OVER (PARTITION BY k ORDER BY at, v) AS u FROM l",
    "near in time": "SELECT k, v, at, SUM(v) OVER (PARTITION BY k ORDER BY at RANGE INTERVAL '9'"
    " SECOND PRECEDING) AS s FROM l",
    "within windows": f"SELECT k, v, at, COUNT(*) OVER (PARTITION BY k, {BOUNDS} ORDER BY at RANGE"
    f" INTERVAL '4' SECOND PRECEDING) AS n FROM TABLE({TVF.format(t='l')})",
    "totals of sessions": f"SELECT n, COUNT(*) AS sessions FROM (SELECT k, COUNT(*) AS n, {BOUNDS}"
    f" FROM TABLE({SESSION}) GROUP BY k, {BOUNDS}) GROUP BY n",
}
UPDATING = ("tumble", "hop", "session", "sessions", "join", "top", "interval", "totals of sessions")


class Streams:
    """Rows of streams, some of them late, some taken back."""

    def __init__(self, seed: str, *, updating: bool) -> None:
        self._rng = random.Random(seed)
        columns = {"k": "INT", "v": "INT", "at": "TIMESTAMP(3)"}
        mark = ("at", "at - INTERVAL '5' SECOND")
        mode: Any = "all" if updating else "insert"
        self.sources = {
            "l": changelog(columns, mode=mode, watermark=mark, name="l"),
            "r": changelog(columns, mode=mode, watermark=mark, name="r"),
            "c": changelog(columns, primary_key=["k"], mode="upsert", watermark=mark, name="c"),
        }
        self._updating = updating
        self._there: dict[str, list[dict[str, Any]]] = {name: [] for name in self.sources}
        self._now = 0.0

    def epoch(self, used: str) -> list[tuple[str, list[dict[str, Any]]]]:
        self._now += self._rng.choice([2, 5, 9])
        return [(name, [self._change(name) for _ in range(12)]) for name in used]

    def _change(self, name: str) -> dict[str, Any]:
        rng, there = self._rng, self._there[name]
        if self._updating and name != "c" and there and rng.random() < 0.2:
            return {**there.pop(rng.randrange(len(there))), "_row_kind": "-D"}
        row = {
            "k": rng.choice([*range(8), *([None] if name != "c" else [])]),
            "v": rng.randrange(9),
            "at": at(self._now) + timedelta(milliseconds=rng.randrange(-9000, 4000)),
        }
        there.append(row)
        return {**row, "_row_kind": "+U" if name == "c" else "+I"}


CASES = [(name, False) for name in QUERIES] + [(name, True) for name in UPDATING]


def streams_of(name: str) -> str:
    return "lc" if name == "temporal" else "lr" if name in ("join", "interval") else "l"


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "updating"), CASES)
def test_other_numbers_of_workers_give_what_one_gives(name: str, updating: bool) -> None:
    both = [Streams(name, updating=updating) for _ in range(2)]
    used = streams_of(name)
    one, several = (
        Workers(query(QUERIES[name], **{n: each.sources[n] for n in used}), 1) for each in both
    )
    for workers in (1, 3, 3, 2, 1):
        several.rescale(workers)
        for run, streams in zip((one, several), both, strict=True):
            for source, changes in streams.epoch(used):
                streams.sources[source].push(changes)
            run.step()
        assert one.content == several.content
    for run, streams in zip((one, several), both, strict=True):
        for source in used:
            streams.sources[source].finish()
        run.step()
    assert one.content == several.content
    assert one.content
    one.close()
    several.close()
