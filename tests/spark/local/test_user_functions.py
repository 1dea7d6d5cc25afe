"""Users' functions, and what Spark has no words for: the same rows as on the local engine."""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pkray.relational import from_arrow
from pkray.relational.udf import udaf, udf, udtf

ROWS = from_arrow(
    pa.table(
        {
            "k": pa.array([1, 1, 2, None, 2], pa.int32()),
            "s": ["a b", None, "c", "", "d e f"],
            "v": pa.array([1, 5, None, 2, 9], pa.int64()),
        }
    ),
    name="r",
)


@udf("BIGINT")
def doubled(x: pa.Array) -> pa.Array:
    return pc.multiply(x, 2)


@udtf("word STRING, length INT", arguments=["STRING"])
def words(texts: pa.Array) -> pa.RecordBatch:
    parts = pc.split_pattern(texts, " ")
    word = pc.list_flatten(parts)
    return pa.record_batch(
        {"_row": pc.list_parent_indices(parts), "word": word, "length": pc.utf8_length(word)}
    )


@udaf("BIGINT")
def spread(x: pa.Array) -> int | None:
    known = x.drop_null()
    return pc.max(known).as_py() - pc.min(known).as_py() if len(known) else None


@udaf("STRING")
def told(x: pa.Array, y: pa.Array) -> str:
    return f"{len(x)} rows, {x.null_count + y.null_count} NULL"


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, word, length, doubled(v) AS d FROM r LATERAL VIEW words(s) w AS word, length",
        "SELECT k, w FROM r LEFT JOIN LATERAL words(s) AS q(w, n) ON true",
        "SELECT words(concat(s, ' z')) FROM r",
        "SELECT k, spread(v) AS a, told(s, v) AS b, count(*) AS n FROM r GROUP BY k",
        "SELECT spread(v) FILTER (WHERE k = 2) AS a, told(k, v) AS b FROM r",
        "SELECT spread(v) AS a FROM r WHERE k > 7",
        "SELECT k, spread(doubled(v)) + 1 AS a FROM r GROUP BY k HAVING spread(v) > 3",
        "SELECT * FROM range(3), range(5, 1, -2)",
        "SELECT stack(2, k, s, v) FROM r",
        "SELECT k, n, x FROM r UNPIVOT (x FOR n IN (v))",
        "SELECT * FROM (SELECT k, s, v FROM r) PIVOT (sum(v) AS t, count(*) AS n FOR s IN "
        "('a b', ''))",
        "SELECT window.end, count(*) AS n FROM (SELECT TIMESTAMP_NTZ '2020-01-01 00:00:00' + v * "
        "INTERVAL 1 MINUTE AS ts FROM r) GROUP BY window(ts, '6 minutes', '2 minutes')",
        "SELECT 1 AS one FROM r HAVING count(*) > 4",
        "SELECT r.k, q.v FROM r FULL JOIN r AS q ON r.v = q.k AND q.v > (SELECT min(v) FROM r)",
        "SELECT r.k, q.v FROM r LEFT JOIN r AS q ON q.v = (SELECT max(v) FROM r z WHERE z.k = r.k)",
    ],
)
def test_both_engines_give_the_same_rows(spark, catalog, text):
    for made in (doubled, words, spread, told):
        catalog.register_function(made.name, made)
    catalog.create_view("r", ROWS, temporary=True)
    relation = catalog.sql(text)
    found, theirs = (
        Counter(map(str, each.to_pylist()))
        for each in (relation.to_arrow(), relation.to_arrow(engine="spark"))
    )
    assert found == theirs
    assert found or "k > 7" in text
