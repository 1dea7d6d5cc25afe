"""Aggregates that are computed in part before a join."""

import random
from collections import Counter

import pytest

from pkray.relational.local.catalogue import run
from pkray.relational.optimizer import optimize
from pkray.relational.plan.nodes import Node
from tests.unit.relational.optimizer.shapes import Sized, Tables, shape

RANDOM = random.Random(3)


def some(high: int) -> int | None:
    return RANDOM.choice([None, *range(1, high + 1)])


FACTS = Sized(
    "facts",
    400,
    {"k": 9, "g": 2, "x": 50, "y": 400, "b": 99, "d": 9, "f": 9},
    content=[
        (some(9), some(2), some(50), some(400), some(99), some(9), some(9)) for _ in range(400)
    ],
    kinds={"b": "BIGINT", "d": "DECIMAL(9, 2)", "f": "DOUBLE"},
)
NAMES = Sized(
    "names", 12, {"id": 12, "n": 3, "w": 7}, content=[(i, some(3), some(7)) for i in range(2, 14)]
)
NOTHING = Sized("nothing", 400, {"z": 3, "v": 3}, content=[])
TABLES = Tables(FACTS, NAMES, NOTHING)
EARLY = [
    "SELECT n, SUM(x), COUNT(x), COUNT(*), MIN(x), MAX(y), AVG(x) FROM facts JOIN names ON k = id "
    "GROUP BY n",
    "SELECT n, SUM(d), SUM(f), AVG(f), COUNT_IF(x > 20) FROM facts JOIN names ON k = id GROUP BY n",
    "SELECT id, COUNT(x), COUNT(*), SUM(x), AVG(x) FROM names LEFT JOIN facts ON k = id "
    "GROUP BY id",
    "SELECT n, COUNT(*), SUM(x), MIN(d) FROM facts LEFT JOIN names ON k = id GROUP BY n",
    "SELECT SUM(x), COUNT(*), AVG(x) FROM facts JOIN names ON k = id",
    "SELECT SUM(v), COUNT(*), COUNT(v), AVG(v) FROM nothing JOIN names ON z = id",
    "SELECT id, COUNT(*), COUNT(v) FROM names LEFT JOIN nothing ON z = id GROUP BY id",
    "SELECT n + 1 AS m, SUM(x) FROM facts JOIN names ON k = id AND g < n GROUP BY n + 1",
    "SELECT g, w, MAX(DISTINCT x) FROM facts JOIN names ON k = id GROUP BY g, w",
    "SELECT n, SUM(x), COUNT(*) FROM names JOIN facts ON id <=> k GROUP BY n",
]
LATE = [
    "SELECT n, SUM(b) FROM facts JOIN names ON k = id GROUP BY n",
    "SELECT n, COUNT(DISTINCT x) FROM facts JOIN names ON k = id GROUP BY n",
    "SELECT n, SUM(x) FILTER (WHERE x > 3) FROM facts JOIN names ON k = id GROUP BY n",
    "SELECT n, SUM(x + w) FROM facts JOIN names ON k = id GROUP BY n",
    "SELECT n, SUM(1000 / x) FROM facts JOIN names ON k = id GROUP BY n",
    "SELECT y, SUM(x) FROM facts JOIN names ON k = id GROUP BY y",
    "SELECT n, COUNT(x) FROM facts RIGHT JOIN names ON k = id AND x > w GROUP BY n",
    "SELECT n, LISTAGG(CAST(x AS STRING)) FROM facts JOIN names ON k = id GROUP BY n",
]


def counted(plan: Node) -> Counter[str]:
    return Counter(repr(row) for batch in run(plan) for row in batch.to_pylist())


@pytest.mark.parametrize("query", EARLY)
def test_a_side_is_grouped_before_it_is_joined(query: str) -> None:
    bound = TABLES.bound(query)
    plan = optimize(bound, bounded=True)
    assert shape(plan).count("by[") == 2
    assert plan.fields == bound.fields
    assert counted(plan) == counted(bound)


@pytest.mark.parametrize("query", LATE)
def test_what_parts_do_not_give_or_do_not_make_less_is_grouped_after(query: str) -> None:
    plan = optimize(TABLES.bound(query), bounded=True)
    assert shape(plan).count("by[") == 1


def test_continuous_queries_group_after_their_joins() -> None:
    assert shape(optimize(TABLES.bound(EARLY[0]))).count("by[") == 1


def test_groups_go_below_several_joins() -> None:
    query = (
        "SELECT a.n, SUM(x) FROM facts JOIN names a ON k = a.id LEFT JOIN names b ON k = b.w "
        "GROUP BY a.n"
    )
    bound = TABLES.bound(query)
    plan = optimize(bound, bounded=True)
    assert "by[k](facts)" in shape(plan)
    assert counted(plan) == counted(bound)
