"""What each node of a bounded run gives can be watched."""

from collections import Counter

import pyarrow as pa
import pytest

from pkray.relational.local import engine
from pkray.relational.plan import nodes
from pkray.relational.plan.expressions import AggregateCall
from pkray.relational.plan.fields import Field, Fields
from pkray.schema.types import DataType
from tests.node_schemas import check
from tests.unit.relational.local.inputs import Rows, call, col, lit, result, rows_of

COUNT = AggregateCall("count", (), DataType("BIGINT", nullable=False))


def counted(rows: nodes.Node) -> nodes.Node:
    return nodes.Aggregate(rows, ("k",), (("n", COUNT),))


def below_steps() -> nodes.Node:
    kept = nodes.Filter(rows_of("k INT, v INT", [(1, 5), (2, 6)]), call("less", col("k"), lit(2)))
    return nodes.Hint(nodes.Project(kept, (("k", col("k")),)), "STATE_TTL", ())


def shared_below_steps() -> nodes.Node:
    rows = rows_of("k INT, v INT", [(1, 5), (2, 6)])
    kept = nodes.Filter(counted(rows), call("less", col("k"), lit(2)))
    return nodes.SetOperation(kept, counted(rows), nodes.SetKind.UNION, True)


@pytest.mark.parametrize("plan", [below_steps(), shared_below_steps()], ids=["steps", "shared"])
def test_a_watch_is_shown_what_every_node_gives(
    plan: nodes.Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: Counter[int] = Counter()
    shown = [*engine.WATCHES, lambda node, batch: seen.update([id(node)])]
    monkeypatch.setattr(engine, "WATCHES", shown)
    result(plan)
    assert {type(node) for node in plan.walk()} == {
        type(node) for node in plan.walk() if seen[id(node)]
    }


class Wrong(Rows):
    """Rows of which one is NULL that cannot be."""

    def batches(self, columns: object, condition: object = None) -> list[pa.RecordBatch]:  # type: ignore[override]
        return [pa.record_batch([pa.array([None], pa.int32())], schema=self.fields.arrow)]


def test_a_source_below_a_step_that_gives_null_where_none_can_be_is_found() -> None:
    fields = Fields((Field("k", DataType("INT", nullable=False)),))
    scan = rows_of("k INT NOT NULL", [(1,)])
    plan = nodes.Project(type(scan)(Wrong(fields, [])), (("one", lit(1)),))
    with pytest.raises(AssertionError, match="Scan has NULL in"):
        result(plan)
    assert check in engine.WATCHES
