"""Relations of random methods: their SQL, their JSON and their optimized plans are the same."""

import json
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as some

from pkray.relational import Relation, from_arrow, lit, query, when
from pkray.relational.api import func as f
from pkray.relational.functions.function import is_known
from pkray.relational.local.catalogue import run
from pkray.relational.optimizer import optimize
from pkray.relational.plan.json.reader import PlanNames, from_json
from pkray.relational.plan.json.writer import to_json
from pkray.relational.plan.nodes import Node, Scan
from pkray.relational.plan.physical import to_logical, to_physical
from tests.effort import examples

ROWS = {
    "a": pa.array([1, 2, 2, None, 5, -3], pa.int32()),
    "b": pa.array([1.5, None, 0.0, -2.5, 7.0, 7.0]),
    "c": pa.array(["x", "y", None, "x", "", "Z"]),
}
ONE = from_arrow(pa.table(ROWS), name="one")
OTHER = from_arrow(
    pa.table({**ROWS, "d": pa.array([True, None, False, True, False, None])}), name="other"
)
SOURCES = {
    node.source.name: node.source
    for each in (ONE, OTHER)
    for node in each.plan.walk()
    if isinstance(node, Scan)
}
NAMES = PlanNames(lambda name, options, at: SOURCES[name], lambda name: None, is_known)

Step = Callable[[Relation], Relation]


def numbers(relation: Relation) -> list[str]:
    return [x.name for x in relation.fields if x.type.root in ("INT", "BIGINT", "DOUBLE")]


def texts(relation: Relation) -> list[str]:
    return [x.name for x in relation.fields if x.type.root == "STRING"]


def picked(names: list[str], number: int) -> str:
    return names[number % len(names)]


def renamed(relation: Relation, name: str, new: str) -> Relation:
    return relation if new in relation.columns else relation.rename_columns({name: new})


def relation_of(steps: list[Step]) -> Relation:
    relation = ONE
    for step in steps:
        if len(relation.columns) <= 12:
            relation = step(relation)
    return relation


@some.composite
def steps(draw) -> Step:
    n, m = draw(some.integers(0, 9)), draw(some.integers(0, 9))
    return draw(
        some.sampled_from(
            [
                lambda r: r.filter(r[picked(r.columns, n)].is_not_null()),
                lambda r: r.filter(r[picked(numbers(r), n)] >= m - 4) if numbers(r) else r,
                lambda r: (
                    r.filter((r[picked(numbers(r), n)] < m) | r[picked(r.columns, m)].is_null)
                    if numbers(r)
                    else r
                ),
                lambda r: r.select(*dict.fromkeys([picked(r.columns, n), picked(r.columns, m)])),
                lambda r: (
                    r.with_columns(**{f"n{n}": r[picked(numbers(r), m)] + lit(n)})
                    if numbers(r)
                    else r
                ),
                lambda r: r.with_columns(t=f.upper(r[picked(texts(r), n)])) if texts(r) else r,
                lambda r: r.with_columns(
                    w=when(r[picked(r.columns, n)].is_null(), "none").otherwise(lit("some"))
                ),
                lambda r: renamed(r, picked(r.columns, n), f"r{len(r.columns)}_{m}"),
                lambda r: r.drop_columns(picked(r.columns, n)) if len(r.columns) > 1 else r,
                lambda r: r.group_by(picked(r.columns, n)).agg(
                    k=f.count(), s=f.max(picked(r.columns, m))
                ),
                lambda r: r.distinct(),
                lambda r: r.union(r, all=bool(n % 2)),
                lambda r: r.except_(r.filter(f"{n} > 4")),
                lambda r: r.join(OTHER, lit(n) > m, "left" if n % 2 else "inner"),
                lambda r: r.join(r.alias("again"), picked(r.columns, n), "semi"),
                lambda r: r.topn(n + 1, picked(r.columns, m), [r[each].desc for each in r.columns]),
                lambda r: r.dropna(n % (len(r.columns) + 1)),
                lambda r: r.order_by(*r.columns).limit(n + 1, m),
                lambda r: r.alias(f"alias{n}"),
            ]
        )
    )


random_relations = given(some.lists(steps(), min_size=1, max_size=5).map(relation_of))
often = settings(max_examples=examples(30), derandomize=True)


def rows(plan: Node) -> Counter[str]:
    return Counter(repr(row) for batch in run(plan) for row in batch.to_pylist())


@often
@random_relations
def test_the_sql_of_a_relation_gives_its_plan_and_its_rows(relation: Relation) -> None:
    again = query(relation.sql(), one=ONE, other=OTHER)
    assert again.plan == relation.plan
    assert rows(again.plan) == rows(relation.plan)


@often
@random_relations
def test_an_optimized_plan_gives_the_same_rows(relation: Relation) -> None:
    assert rows(optimize(relation.plan)) == rows(relation.plan)


@often
@random_relations
def test_a_plan_is_read_from_json_as_it_was_written(relation: Relation) -> None:
    plan = to_physical(optimize(relation.plan), before=False)
    document = to_json([plan], dialect="spark", version="1", ttl="0 ms", before=[False])
    (read,) = from_json(json.loads(json.dumps(document)), NAMES)
    assert read == plan
    assert rows(to_logical(read)) == rows(relation.plan)
