"""Relations of random methods: the SQL that they show gives their plan, and both give rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from pkray.relational import Relation, from_arrow, lit, query, when
from pkray.relational import func as f

ROWS = {
    "a": pa.array([1, 2, 2, None, 5, -3], pa.int32()),
    "b": pa.array([1.5, None, 0.0, -2.5, 7.0, 7.0]),
    "c": pa.array(["x", "y", None, "x", "", "Z"]),
}
ONE = from_arrow(pa.table(ROWS), name="one")
OTHER = from_arrow(
    pa.table({**ROWS, "d": pa.array([True, None, False, True, False, None])}), name="other"
)

Step = Callable[[Relation], Relation]


def numbers(relation: Relation) -> list[str]:
    return [x.name for x in relation.fields if x.type.root in ("INT", "BIGINT", "DOUBLE")]


def texts(relation: Relation) -> list[str]:
    return [x.name for x in relation.fields if x.type.root == "STRING"]


def picked(names: list[str], number: int) -> str:
    return names[number % len(names)]


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
                lambda r: r.rename_columns({picked(r.columns, n): f"r{m}"}),
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


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(some.lists(steps(), min_size=1, max_size=5))
def test_the_sql_of_a_relation_gives_its_plan_and_its_rows(made):
    relation = ONE
    for step in made:
        relation = step(relation)
        if len(relation.columns) > 12:
            break
    again = query(relation.sql(), one=ONE, other=OTHER)
    assert again.plan == relation.plan

    def rows(each: Relation) -> Counter[str]:
        return Counter(map(repr, each.to_arrow().to_pylist()))

    assert rows(again) == rows(relation)
