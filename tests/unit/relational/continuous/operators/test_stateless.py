import random

import pyarrow as pa
import pytest

from pkray.relational import changelog, query
from pkray.relational.continuous.changes import Changes, concatenated
from pkray.relational.continuous.operator import Epoch
from pkray.relational.plan.nodes import Unnest
from tests.unit.relational.continuous.histories import Continuous, RandomHistory, kinds_of

COLUMNS = {"k": "INT", "v": "STRING", "tags": "ARRAY<STRING>"}
QUERIES = [
    "SELECT k + 1 AS x, upper(v) AS v FROM t WHERE k > 2",
    "SELECT 1 AS one FROM t",
    "SELECT k, tag FROM t LATERAL VIEW explode(tags) AS tag",
    "SELECT k, tag FROM t LATERAL VIEW OUTER explode(tags) AS tag WHERE v IS NOT NULL",
    "SELECT tag FROM t LATERAL VIEW explode(tags) AS tag",
    "SELECT tag, count(*) AS n, max(k) AS m FROM t LATERAL VIEW explode(tags) AS tag GROUP BY tag",
    "SELECT a, b FROM t LATERAL VIEW explode(tags) AS a LATERAL VIEW explode(tags) AS b",
    "SELECT a, n FROM (SELECT tag AS a, v AS c FROM t LATERAL VIEW explode(tags) AS tag) "
    "JOIN (SELECT tag AS b, count(*) AS n FROM t LATERAL VIEW explode(tags) AS tag GROUP BY tag) "
    "ON a = b",
    "SELECT tags, tag FROM t LATERAL VIEW explode(tags) AS tag",
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


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, x FROM t LATERAL VIEW explode(a) AS x",
        "SELECT k, p + x AS s FROM t LATERAL VIEW posexplode(a) AS p, x WHERE x % 2 = 0",
        "SELECT k, count(*) AS n FROM t LATERAL VIEW explode(a) AS x GROUP BY k",
        "SELECT k, x, y FROM t LATERAL VIEW explode(a) AS x LATERAL VIEW explode(array(x)) AS y",
    ],
)
def test_an_array_that_nobody_reads_is_not_repeated_with_its_elements(text: str) -> None:
    t = changelog({"k": "INT", "a": "ARRAY<BIGINT>"}, mode="insert", name="t")
    run = Continuous(query(text, t=t), {"t": t})
    run.push("t", [{"k": 1, "a": list(range(9)), "_row_kind": "+I"}])
    run.check()
    unnests = [each.node for each in run.graph.stages if isinstance(each.node, Unnest)]
    assert unnests
    assert all("a" not in each.fields.names for each in unnests)


def test_rows_that_were_computed_elsewhere_with_all_columns_go_on() -> None:
    t = changelog({"a": "ARRAY<BIGINT>"}, mode="insert", name="t")
    run = Continuous(
        query("SELECT count(*) n FROM t LATERAL VIEW explode(a) x AS x", t=t), {"t": t}
    )
    (stage,) = (each for each in run.graph.stages if isinstance(each.node, Unnest))
    rows = pa.record_batch({"a": [[1, 2], [1, 2]], "x": [1, 2]})
    made = run.graph.run({stage.number: Changes.of_kind(rows)}, Epoch(0, 0))
    assert stage.node.fields.names == ("x",)
    assert kinds_of(concatenated(run.fields, made)) == [("+I", (2,))]
