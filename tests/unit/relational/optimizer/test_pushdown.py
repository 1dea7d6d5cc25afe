"""Filters that move towards the sources."""

from pkray.relational.optimizer.pushdown import push_down
from pkray.relational.plan.expressions import Call, Literal
from pkray.relational.plan.nodes import Filter, Project
from pkray.schema.types import DataType
from tests.unit.relational.local.inputs import BOOLEAN, col, result, rows_of


def test_a_condition_on_a_constant_array_moves_to_the_source() -> None:
    array = Literal(DataType.parse("ARRAY<INT>"), [2, 3])
    rows = Project(rows_of("k INT", [(1,), (2,)]), (("k", col("k")),))
    plan = push_down(Filter(rows, Call(BOOLEAN, "array_contains", (array, col("k")))))
    assert isinstance(plan, Project)
    assert result(plan) == [(2,)]
