"""Bounded runs: what is fixed before a plan runs."""

import itertools

import pyarrow as pa
import pytest

from pkray.relational import from_arrow, query


def test_the_time_of_a_run_is_one_for_all_that_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(1)
    monkeypatch.setattr("time.time_ns", lambda: next(seconds) * 10**9)
    query = from_arrow({"x": [1, 2]}).filter("now() = now()").select("now() AS a")
    first, second = (query.to_arrow()["a"].to_pylist() for _ in range(2))
    assert len(first) == len(second) == 2
    assert len(set(first)) == 1
    assert first[0] < second[0]


@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL"])
@pytest.mark.parametrize("where", ["a.m > 0", "b.m > 0", "a.m > 0 AND b.m > 0"])
def test_rows_have_the_schema_of_the_relation_where_a_join_was_made_narrower(
    kind: str, where: str
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("m", pa.int64(), False)])
    a = from_arrow(pa.table({"id": [1, 2], "m": [1, 3]}, schema=schema))
    b = from_arrow(pa.table({"id": [5, 6], "m": [1, 4]}, schema=schema))
    text = f"SELECT a.id, b.id AS other FROM a {kind} JOIN b ON a.m = b.m WHERE {where}"
    asked = query(text, a=a, b=b)
    assert [batch.schema for batch in asked.to_batches()] == [asked.schema]
    rows = asked.to_arrow()
    assert rows.schema == asked.schema
    assert (1, 5) in zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True)
