"""Parts of a plan that occur twice."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from pkray.relational.local.shared import repeated
from pkray.relational.plan import nodes
from pkray.relational.plan.expressions import AggregateCall, Expression
from pkray.schema.types import DataType
from tests.unit.relational.local.inputs import Rows, call, col, lit, result, rows_of

COUNT = AggregateCall("count", (), DataType("BIGINT", nullable=False))


class Watched(Rows):
    """Rows that count how often they are read."""

    reads = 0

    def batches(
        self, columns: Sequence[str], condition: Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        self.reads += 1
        yield from super().batches(columns, condition)


def watched() -> tuple[Watched, Any]:
    rows = rows_of("k INT, v INT", [(1, 5), (1, 6), (2, 7)]).source
    source = Watched(rows.fields, [(1, 5), (1, 6), (2, 7)])

    def counts() -> nodes.Aggregate:
        return nodes.Aggregate(nodes.Scan(source), ("k",), (("n", COUNT),))

    return source, counts


def test_equal_parts_are_computed_once() -> None:
    source, counts = watched()
    most = nodes.Aggregate(counts(), (), (("m", AggregateCall("max", ("n",), DataType("BIGINT"))),))
    plan = nodes.Join(counts(), most, nodes.JoinKind.INNER, ("n",), ("m",), ("m",))
    assert result(plan) == [(1, 2, 2)]
    assert source.reads == 1


def test_parts_below_projections_and_filters_are_shared() -> None:
    source, counts = watched()
    left = nodes.Filter(counts(), call("less", col("k"), lit(2)))
    right = nodes.Project(counts(), (("k", col("k")), ("n", col("n", "BIGINT NOT NULL"))))
    plan = nodes.SetOperation(left, right, nodes.SetKind.UNION, True)
    assert sorted(result(plan)) == [(1, 2), (1, 2), (2, 1)]
    assert source.reads == 1


def test_parts_that_differ_each_time_are_not_shared() -> None:
    _, counts = watched()

    def random() -> nodes.Aggregate:
        draw = call("rand", kind="DOUBLE NOT NULL")
        return nodes.Aggregate(nodes.Project(counts(), (("x", draw),)), ("x",), ())

    plan = nodes.SetOperation(random(), random(), nodes.SetKind.UNION, True)
    inner = [node for node in plan.walk() if node == counts()]
    assert repeated(plan).keys() == {id(node) for node in inner}


def test_parts_with_constants_that_only_compare_equal_are_not_shared() -> None:
    _, counts = watched()

    def zero(value: float) -> nodes.Aggregate:
        columns = (("x", lit(value, "DOUBLE NOT NULL")),)
        return nodes.Aggregate(nodes.Project(counts(), columns), ("x",), ())

    plan = nodes.SetOperation(zero(0.0), zero(-0.0), nodes.SetKind.UNION, True)
    assert result(plan) == [(0.0,), ("-0.0",)]


def test_parts_with_constants_that_are_lists_are_computed_each_time() -> None:
    _, counts = watched()

    def listed() -> nodes.Aggregate:
        columns = (("x", lit([1], "ARRAY<INT>")),)
        return nodes.Aggregate(nodes.Project(counts(), columns), ("x",), ())

    assert result(nodes.SetOperation(listed(), listed(), nodes.SetKind.UNION, True)) == [
        ([1],),
        ([1],),
    ]
