import random

import pytest

from pkray.relational import changelog, query
from tests.unit.relational.continuous.histories import Continuous, RandomHistory, kinds_of

COLUMNS = {"k": "INT", "v": "STRING", "tags": "ARRAY<STRING>"}
QUERIES = [
    "SELECT k + 1 AS x, upper(v) AS v FROM t WHERE k > 2",
    "SELECT 1 AS one FROM t",
    "SELECT k, tag FROM t LATERAL VIEW explode(tags) AS tag",
    "SELECT k, tag FROM t LATERAL VIEW OUTER explode(tags) AS tag WHERE v IS NOT NULL",
]


def row(rng: random.Random) -> dict[str, object]:
    return {
        "k": rng.choice([None, *range(6)]),
        "v": rng.choice([None, "a", "b"]),
        "tags": rng.choice([None, [], ["p"], ["p", "q", None]]),
    }


@pytest.mark.parametrize("text", QUERIES)
def test_rows_by_themselves_follow_their_source(text: str) -> None:
    t = changelog(COLUMNS, mode="all", name="t")
    run = Continuous(query(text, t=t), {"t": t})
    history = RandomHistory(random.Random(text), row)
    for size in (1, 3, 40, 7):
        run.push("t", history.epoch(size))
        run.check()


def test_an_update_that_leaves_the_filter_keeps_its_retraction_alone() -> None:
    t = changelog({"k": "INT"}, mode="all", name="t")
    run = Continuous(query("SELECT k FROM t WHERE k > 2", t=t), {"t": t})
    run.push("t", [{"k": 3, "_row_kind": "+I"}])
    made = run.push("t", [{"k": 3, "_row_kind": "-U"}, {"k": 1, "_row_kind": "+U"}])
    assert kinds_of(made) == [("-U", (3,))]


def test_rows_are_told_the_time_of_their_epoch() -> None:
    t = changelog({"k": "INT"}, mode="insert", name="t")
    text = "SELECT unix_timestamp() AS s, k FROM t WHERE current_timestamp < TIMESTAMP '1970-01-02'"
    run = Continuous(query(text, t=t), {"t": t})
    made = [run.push("t", [{"k": 1, "_row_kind": "+I"}], time) for time in (7_000, 86_400_000)]
    assert [kinds_of(each) for each in made] == [[("+I", (7, 1))], []]
