"""References have their columns' types, also above joins that conditions made narrower."""

from collections.abc import Iterator

import pytest

from pkray.relational.optimizer import optimize
from pkray.relational.optimizer.pushdown import push_down
from pkray.relational.plan.expressions import ColumnRef, Expression
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.nodes import Filter, Join, Node, Project
from tests.unit.relational.optimizer.shapes import Sized, Tables

KINDS = {"id": "INT NOT NULL", "m": "BIGINT NOT NULL", "n": "BIGINT"}
TABLES = Tables(*(Sized(name, 4, dict.fromkeys(KINDS, 4), kinds=KINDS) for name in "ab"))


def references(plan: Node) -> Iterator[tuple[ColumnRef, Fields]]:
    """List the references of a plan's expressions, with the columns that they may be of."""
    for node in plan.walk():
        parts: list[Expression] = []
        known = node.inputs[0].fields if node.inputs else node.fields
        if isinstance(node, Filter):
            parts = [node.condition]
        elif isinstance(node, Project):
            parts = [value for _, value in node.columns]
        elif isinstance(node, Join):
            parts, known = [node.condition], node.left.fields + node.right_fields
        for each in parts:
            for part in each.walk():
                if isinstance(part, ColumnRef):
                    yield part, known


@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL"])
@pytest.mark.parametrize("where", ["a.m > 0", "b.m > 0", "a.m > 0 AND b.m > 0", "a.n = b.n"])
@pytest.mark.parametrize(
    "select",
    [
        "SELECT a.id, b.id AS b",
        "SELECT *, a.m + b.m AS s, b.m = 1 AS one",
        "SELECT b.m, count(*) AS n, max(a.m) AS a",
        "SELECT *, max(b.m) OVER (PARTITION BY a.id ORDER BY b.m) AS o",
    ],
)
def test_references_have_the_types_of_their_columns(select: str, where: str, kind: str) -> None:
    group = " GROUP BY b.m" if "count" in select else ""
    plan = TABLES.bound(f"{select} FROM a {kind} JOIN b ON a.m = b.m WHERE {where}{group}")
    for changed in (push_down(plan), optimize(plan), optimize(plan, bounded=True)):
        found = list(references(changed))
        assert found
        for reference, columns in found:
            assert reference.type == columns[reference.name].type, reference.name
