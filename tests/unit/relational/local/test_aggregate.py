"""Aggregates against a model that folds row by row."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.errors import UnsupportedError
from pkray.relational import from_arrow, query
from pkray.relational.local.catalogue import run
from pkray.relational.plan.expressions import AggregateCall, SortKey
from pkray.relational.plan.nodes import Aggregate, Distinct, Node
from pkray.schema.types import DataType
from tests.effort import examples
from tests.unit.relational.local.inputs import bag, counted, lit, result, rows_of

COLUMNS = "k INT, j STRING, v BIGINT, b BOOLEAN"
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 2)),
        st.sampled_from([None, "", "a"]),
        st.one_of(st.none(), st.integers(-3, 3)),
        st.one_of(st.none(), st.booleans()),
    ),
    max_size=12,
)
Row = tuple[Any, ...]


def of(function: str, *arguments: str, kind: str = "BIGINT", **options: Any) -> AggregateCall:
    return AggregateCall(function, arguments, DataType.parse(kind), **options)


def aggregated(source: Node, keys: tuple[str, ...], **calls: AggregateCall) -> Aggregate:
    return Aggregate(source, keys, tuple(calls.items()))


def alone(kind: str, values: list[Any], call: AggregateCall) -> Any:
    """Aggregate one column x without keys."""
    ((found,),) = result(aggregated(rows_of(f"x {kind}", [(v,) for v in values]), (), a=call))
    return found


@pytest.mark.parametrize("rows", [0, 3])
def test_without_keys_and_calls_there_is_one_row(rows: int) -> None:
    node = aggregated(rows_of("v BIGINT", [(1,)] * rows), ())
    (batch,) = run(node)
    assert (batch.num_rows, batch.num_columns) == (1, 0)


def model(rows: list[Row], call: AggregateCall) -> Any:
    if call.filter:
        rows = [row for row in rows if row[3]]
    values = [row["kjvb".index(call.arguments[0])] if call.arguments else 1 for row in rows]
    values = [value for value in values if value is not None]
    if call.distinct:
        values = list(dict.fromkeys(values))
    if call.function == "count":
        return len(values)
    if not values:
        return None
    computed = {"sum": sum, "min": min, "max": max, "bool_and": all, "bool_or": any}
    return sum(values) / len(values) if call.function == "avg" else computed[call.function](values)


CALLS = {
    "rows": of("count", kind="BIGINT NOT NULL"),
    "texts": of("count", "j", kind="BIGINT NOT NULL"),
    "total": of("sum", "v"),
    "mean": of("avg", "v", kind="DOUBLE"),
    "least": of("min", "v"),
    "last": of("max", "j", kind="STRING"),
    "all": of("bool_and", "b", kind="BOOLEAN"),
    "any": of("bool_or", "b", kind="BOOLEAN"),
    "some_rows": of("count", kind="BIGINT NOT NULL", filter="b"),
    "some_total": of("sum", "v", filter="b"),
}
DISTINCT = {
    "different": of("count", "v", kind="BIGINT NOT NULL", distinct=True),
    "some_different": of("count", "j", kind="BIGINT NOT NULL", distinct=True, filter="b"),
    "total_different": of("sum", "v", distinct=True),
}


@pytest.fixture(autouse=True)
def parts_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pkray.relational.local.aggregate.SAMPLE_ROWS", 4)
    monkeypatch.setattr("pkray.relational.local.aggregate.PART_ROWS", 3)


NUMBERS = {name: CALLS[name] for name in ("rows", "total", "mean", "least", "some_total")}


@pytest.mark.parametrize("calls", [CALLS, CALLS | DISTINCT, NUMBERS])
@settings(max_examples=examples(60))
@given(rows=ROWS, keys=st.sampled_from([(), ("k",), ("k", "j")]))
def test_groups_are_those_of_a_fold_row_by_row(
    calls: dict[str, AggregateCall], rows: list[Row], keys: tuple[str, ...]
) -> None:
    groups: dict[Row, list[Row]] = {} if keys else {(): []}
    for row in rows:
        groups.setdefault(row[: len(keys)], []).append(row)
    expected = [
        (*key, *(model(group, call) for call in calls.values())) for key, group in groups.items()
    ]
    assert bag(aggregated(rows_of(COLUMNS, rows), keys, **calls)) == counted(expected)


def test_parts_are_merged() -> None:
    rows = [(i % 2, None, i, i % 3 == 0) for i in range(40)]
    expected = [
        (k, *(model([row for row in rows if row[0] == k], call) for call in CALLS.values()))
        for k in (0, 1)
    ]
    assert bag(aggregated(rows_of(COLUMNS, rows), ("k",), **CALLS)) == counted(expected)


PARTED = [2**63 - 1] * 5 + [-(2**63) + 1] * 4
"""Values whose sum fits, but none of the sums of their parts."""


WIDE = Decimal("9" * 36 + ".99")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("BIGINT", [2**63 - 1, 1, -1]),
        ("BIGINT", [2**62, 2**62, -(2**62)]),
        ("BIGINT", [-(2**63), 5]),
        ("BIGINT", PARTED),
        ("DECIMAL(38, 2)", [WIDE, WIDE, WIDE.copy_negate()]),
    ],
)
def test_a_sum_that_fits_is_exact_although_its_parts_do_not(kind: str, values: list[Any]) -> None:
    total = WIDE if "DECIMAL" in kind else sum(values)
    assert alone(kind, values, of("sum", "x", kind=kind)) == total


def test_ordered_aggregates_take_rows_in_their_order() -> None:
    source = rows_of("k INT, v STRING", [(1, "b"), (1, "a"), (2, "x"), (1, "c")])
    call = of(
        "listagg",
        "v",
        kind="STRING",
        order_by=(SortKey("v", descending=True),),
        parameters=(lit(",", "STRING NOT NULL"),),
    )
    assert bag(aggregated(source, ("k",), a=call)) == counted([(1, "c,b,a"), (2, "x")])


def test_rows_without_columns_are_counted() -> None:
    source = rows_of("x INT", [(1,), (2,), (3,)])
    empty = type(source)(source.source, ())
    assert result(aggregated(empty, (), n=of("count", kind="BIGINT NOT NULL"))) == [(3,)]
    assert result(Distinct(empty)) == [()]


def test_more_rows_than_memory_allows_are_refused() -> None:
    source = rows_of("x INT", [(i,) for i in range(10)])
    plan = aggregated(source, (), a=of("listagg", "x", kind="STRING", distinct=True))
    with pytest.raises(UnsupportedError, match="more than memory=8 bytes"):
        list(run(plan, memory=8))


@pytest.mark.parametrize("memory", [None, 1 << 16])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(DISTINCT v) c FROM t",
        "SELECT count(*) n, count(DISTINCT v) c, sum(DISTINCT v) s, max(v) m FROM t",
        "SELECT count(DISTINCT v) c, count(DISTINCT v, w) d, sum(w) s FROM t",
        "SELECT count(DISTINCT v) FILTER (WHERE w > 2) c, count(w) n FROM t",
        "SELECT count(DISTINCT v) FILTER (WHERE w > 99) c FROM t",
        "SELECT k, count(DISTINCT v) c, avg(DISTINCT v) a FROM t GROUP BY k",
        "SELECT k, count(DISTINCT v) FILTER (WHERE w > 99) c FROM t GROUP BY k",
        "SELECT k, count(DISTINCT v) c, count(*) n FROM t GROUP BY k",
        "SELECT count(DISTINCT v) c, count(*) n FROM t WHERE v > 1000",
    ],
)
def test_distinct_values_are_those_of_a_set_in_any_memory(text: str, memory: int | None) -> None:
    duckdb = pytest.importorskip("duckdb")
    numbers = np.arange(5000)
    rows = pa.table(
        {
            "k": pa.array(numbers % 7, mask=numbers % 7 == 3),
            "v": pa.array(numbers * 31 % 997, mask=numbers % 11 == 0),
            "w": pa.array(numbers % 5),
        }
    )
    found = query(text, t=from_arrow(rows)).to_arrow(memory=memory)
    connection = duckdb.connect()
    connection.register("t", rows)
    both = "count(DISTINCT CASE WHEN v IS NOT NULL AND w IS NOT NULL THEN (v, w) END)"
    expected = connection.sql(text.replace("count(DISTINCT v, w)", both)).fetchall()

    def plain(given: Iterable[tuple[Any, ...]]) -> list[str]:
        return sorted(str([None if x is None else float(x) for x in row]) for row in given)

    assert plain(zip(*found.to_pydict().values(), strict=True)) == plain(expected)
