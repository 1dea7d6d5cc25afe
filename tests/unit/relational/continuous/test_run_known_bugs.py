"""Faults that are known of continuous queries elsewhere, as cases."""

from typing import Any

import pytest

from pkray.relational import changelog, query
from pkray.relational.continuous.changes import Changes
from tests.unit.relational.continuous.histories import Continuous, Row, kinds_of

COLUMNS = {"k": "INT", "v": "INT"}
PADDED = "SELECT l.k, l.v, r.v AS w FROM l LEFT JOIN r ON l.k = r.k"
POSITIVE = {
    "filter": "SELECT k, v FROM l WHERE v > 0",
    "join": "SELECT l.k, l.v FROM l JOIN r ON l.k = r.k WHERE l.v > 0",
    "filter of totals": "SELECT k, n FROM (SELECT k, SUM(v) AS n FROM l GROUP BY k) WHERE n > 0",
    "having": "SELECT k, SUM(v) AS n FROM l GROUP BY k HAVING SUM(v) > 0",
    "two filters": "SELECT k, v FROM (SELECT * FROM l WHERE v > 0) WHERE v % 100 < 50",
    "outer join": "SELECT l.k, l.v FROM l LEFT JOIN r ON l.k = r.k AND r.v > 100 WHERE l.v > 0",
}


def running(text: str, *upserted: str, before: bool = True, parts: int = 1) -> Continuous:
    """Run a query of ``l`` and ``r``.

    Args:
        upserted: which of them are told of updates without the rows before.
        before: whether what takes the result needs the rows before.
    """
    sources = {}
    for name in "lr":
        mode = "upsert" if name in upserted else "all"
        sources[name] = changelog(COLUMNS, primary_key=["k"], mode=mode, name=name)
    return Continuous(query(text, **sources), sources, before=before, parts=parts)


def change(kind: str, k: int, v: int | None) -> dict[str, Any]:
    return {"k": k, "v": v, "_row_kind": kind}


class ByKey:
    """The result by its first column: an update need not retract the row that it replaces."""

    def __init__(self, run: Continuous) -> None:
        self.run = run
        self.rows: dict[Any, Row] = {}

    def push(self, source: str, *rows: dict[str, Any]) -> Changes:
        self.run.sources[source].push(list(rows))
        made = self.run.run()
        for kind, row in kinds_of(made):
            if kind[0] == "-":
                del self.rows[row[0]]
            else:
                self.rows[row[0]] = row
        return made


@pytest.mark.parametrize("before", [True, False])
def test_rows_without_a_match_outlast_upserts_of_both_sides(before: bool) -> None:
    table = ByKey(running(PADDED, "l", "r", before=before))
    table.push("l", change("+I", 1, 0), change("+I", 2, 0))
    assert table.rows == {1: (1, 0, None), 2: (2, 0, None)}
    table.push("l", change("+U", 1, 1), change("+U", 2, 1))
    table.push("r", change("+U", 1, 5))
    table.push("r", change("+U", 1, 6))
    assert table.rows == {1: (1, 1, 6), 2: (2, 1, None)}
    table.push("l", change("+U", 2, 2))
    table.push("r", change("-D", 1, None))
    assert table.rows == {1: (1, 1, None), 2: (2, 2, None)}


@pytest.mark.parametrize("parts", [1, 2])
def test_a_match_that_comes_and_goes_in_one_epoch_leaves_the_padded_row(parts: int) -> None:
    table = ByKey(running(PADDED, "l", "r", before=False, parts=parts))
    table.push("l", change("+I", 1, 0))
    table.push("r", change("+I", 1, 5), change("-D", 1, None))
    assert table.rows == {1: (1, 0, None)}


@pytest.mark.parametrize("upserted", ["", "l"])
@pytest.mark.parametrize("text", POSITIVE)
def test_an_update_that_leaves_a_filter_leaves_no_row_behind(text: str, upserted: str) -> None:
    table = ByKey(running(POSITIVE[text], upserted, before=False))
    retracted = [] if upserted else [change("-U", 1, 7)]
    table.push("l", change("+I", 1, 7), change("+I", 2, 9))
    table.push("r", change("+I", 1, 0), change("+I", 2, 0))
    assert table.rows == {1: (1, 7), 2: (2, 9)}
    table.push("l", *retracted, change("+U", 1, -7))
    assert table.rows == {2: (2, 9)}


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, COUNT(*) AS n, SUM(v) AS total, MIN(v) AS low FROM l GROUP BY k",
        "SELECT DISTINCT k FROM l",
        "SELECT l.k, l.v, r.v AS w FROM l LEFT JOIN r ON l.k = r.k",
        "SELECT k, v FROM l ORDER BY v DESC LIMIT 3",
        "SELECT k, v FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS place "
        "FROM l) WHERE place = 1",
        "SELECT k, v FROM l EXCEPT ALL SELECT k, v FROM r",
        "SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY v) AS total FROM l",
    ],
)
def test_a_retraction_of_an_unknown_row_drops_no_other_change(text: str, parts: int) -> None:
    sources = {name: changelog(COLUMNS, mode="all", name=name) for name in "lr"}
    run = Continuous(query(text, **sources), sources, parts=parts)
    run.push(
        "l",
        [
            change("-U", 1, 3),
            change("+I", 1, 4),
            change("-D", 2, 5),
            change("+I", 2, 6),
            change("+I", 1, 7),
            change("-D", 3, 8),
        ],
    )
    run.check()
    run.push("l", [change("-D", 3, 8), change("+I", 3, 9), change("-D", 1, 4)])
    run.check()


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT a.k, a.v, b.v AS w FROM l a JOIN l b ON a.k = b.k",
        "SELECT a.k, a.v, b.v AS w FROM l a LEFT JOIN l b ON a.k = b.k AND a.v < b.v",
        "SELECT k, v FROM l WHERE v = (SELECT MAX(v) FROM l)",
        "SELECT l.k, l.v, n FROM l JOIN (SELECT k, COUNT(*) AS n FROM l GROUP BY k) c ON l.k = c.k",
        "SELECT k, v FROM l EXCEPT SELECT k, v FROM l WHERE v > 1",
    ],
)
def test_a_source_that_is_read_twice_is_read_at_one_snapshot(text: str, parts: int) -> None:
    table = running(text, parts=parts)
    table.push("l", [change("+I", 1, 1), change("+I", 2, 2), change("+I", 3, 3)])
    table.check()
    table.push("l", [change("-U", 3, 3), change("+U", 3, 0), change("-D", 2, 2)])
    table.check()
    table.push("l", [change("+I", 2, 9), change("-U", 1, 1), change("+U", 1, 9)])
    table.check()
