"""Totals over no rows: an aggregate without keys has a row also before the first row comes.

The dialect says whether that is so when a query runs continuously. Where it is, a row that counts
for no aggregate is put beside the input, and is there from the first epoch on.
"""

from dataclasses import replace

from pkray.relational.dialect import Dialect
from pkray.relational.plan import nodes
from pkray.relational.plan.expressions import Literal
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.nodes.groups import COUNTED
from pkray.schema.types import DataType

_TYPE = DataType("BOOLEAN", nullable=False)


def with_total_rows(plan: nodes.Node, dialect: Dialect) -> nodes.Node:
    """Let aggregates without keys give a row over no rows, where the dialect says so."""
    return plan.transform(_with_row) if dialect is Dialect.SPARK else plan


def _with_row(node: nodes.Node) -> nodes.Node:
    if not isinstance(node, nodes.Aggregate) or not node.lacks_row():
        return node
    fields = node.input.fields.only(node.columns_read())
    rows = nodes.Project(node.input, (*fields.refs, (COUNTED, Literal(_TYPE, True))))
    nullable = [replace(each, type=each.type.with_nullable(True)) for each in fields]
    values = (*(Literal(each.type, None) for each in nullable), Literal(_TYPE, False))
    row = nodes.Values(Fields((*nullable, Field(COUNTED, _TYPE))), (values,))
    calls = tuple(
        (name, replace(call, filter=call.filter or COUNTED)) for name, call in node.aggregates
    )
    return nodes.Aggregate(nodes.SetOperation(rows, row, nodes.SetKind.UNION, all=True), (), calls)
