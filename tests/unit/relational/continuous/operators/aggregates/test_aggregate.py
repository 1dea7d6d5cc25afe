import random
from decimal import Decimal

import pytest

from pkray.relational import changelog, query
from tests.effort import examples
from tests.unit.relational.continuous.histories import Continuous, RandomHistory

COLUMNS = {
    "id": "INT",
    "k": "STRING",
    "v": "INT",
    "f": "DOUBLE",
    "d": "DECIMAL(10, 2)",
    "s": "STRING",
    "b": "BOOLEAN",
}
AGGREGATES = {
    "counts and sums": "COUNT(*) AS a, COUNT(v) AS b, SUM(v) AS c, AVG(v) AS d, SUM(d) AS e, "
    "AVG(d) AS g, try_sum(v) AS h",
    "floats": "SUM(f) AS a, AVG(f) AS b, COUNT(f) AS c",
    "extremes": "MIN(v) AS a, MAX(v) AS b, MIN(s) AS c, MAX(s) AS d, MAX(d) AS e, MAX(f) AS g",
    "filters": "COUNT(*) FILTER (WHERE v > 2) AS a, SUM(v) FILTER (WHERE b) AS b, "
    "MAX(v) FILTER (WHERE b) AS c, MAX(v) AS d, COUNT_IF(b) AS e",
    "distinct": "COUNT(DISTINCT v) AS a, SUM(DISTINCT v) AS b, AVG(DISTINCT d) AS e, "
    "COUNT(DISTINCT v) FILTER (WHERE b) AS c, COUNT(DISTINCT v, s) AS d, MAX(v) AS g, "
    "approx_count_distinct(s) AS h",
    "logic and bits": "BOOL_AND(b) AS a, BOOL_OR(b) AS b, BIT_XOR(v) AS c, BIT_AND(v) AS d, "
    "BIT_OR(v) AS e",
    "spreads": "VAR_POP(v) AS a, STDDEV_SAMP(v) AS b, COVAR_POP(v, f) AS c, CORR(v, id) AS d, "
    "SKEWNESS(v) AS e",
    "of all values": "MEDIAN(v) AS a, percentile_approx(v, 0.3) AS b, MODE(s) AS c, "
    "histogram_numeric(v, 9) AS d, histogram_numeric(DISTINCT d, 3) AS e",
    "by another": "MIN_BY(v, id) AS a, MAX_BY(s, id) AS b",
    "in order": "LISTAGG(s, '|') WITHIN GROUP (ORDER BY s DESC) AS a, "
    "LISTAGG(DISTINCT s, '|') WITHIN GROUP (ORDER BY s) AS b",
    "collected": "SORT_ARRAY(COLLECT_LIST(v)) AS a, SORT_ARRAY(COLLECT_SET(s)) AS b",
}


def row(rng: random.Random) -> dict[str, object]:
    return {
        "id": rng.randrange(10_000),
        "k": rng.choice([None, "a", "b", "c", "d", "e"]),
        "v": rng.choice([None, *range(-3, 6)]),
        "f": rng.choice([None, 0.5, -2.25, 8.0, float("nan"), float("inf"), float("-inf")]),
        "d": rng.choice([None, Decimal("1.10"), Decimal("-7.25"), Decimal("12345678.99")]),
        "s": rng.choice([None, "x", "yy", "", "z\0"]),
        "b": rng.choice([None, True, False]),
    }


@pytest.mark.sampled(9)
@pytest.mark.parametrize("seed", range(examples(2)))
@pytest.mark.parametrize("inserts", [True, False])
@pytest.mark.parametrize("kind", AGGREGATES)
def test_aggregates_equal_the_bounded_run_at_every_epoch(
    kind: str, inserts: bool, seed: int
) -> None:
    rng = random.Random(f"{kind} {inserts} {seed}")
    keys = rng.choice(["k", "k, b", "f, k", ""])
    t = changelog(COLUMNS, mode="insert" if inserts else "all", name="t")
    text = f"SELECT {keys + ', ' if keys else ''}{AGGREGATES[kind]} FROM t"
    text += f" GROUP BY {keys}" if keys else ""
    run = Continuous(query(text, t=t), {"t": t}, memory=4096, parts=rng.choice([1, 3]))
    history = RandomHistory(rng, row)
    for size in (20, 1, 5, 60, 30):
        run.push("t", history.epoch(size, inserts=inserts))
        if history.rows or keys:
            run.check()
