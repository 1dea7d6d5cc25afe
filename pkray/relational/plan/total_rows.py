"""Totals over no rows: an aggregate without keys has a row also before the first row comes.

The dialect says whether that is so when a query runs continuously. Where it is, a row that counts
for no aggregate is put beside the input, and is there from the first epoch on.
"""

from __future__ import annotations

from dataclasses import replace

from pkray.relational.dialect import Dialect
from pkray.relational.plan.expressions import ColumnRef, Literal
from pkray.relational.plan.fields import Field, Fields
from pkray.relational.plan.nodes import (
    Aggregate,
    Node,
    Project,
    SetKind,
    SetOperation,
    Values,
)
from pkray.relational.plan.windowing import is_windowed
from pkray.schema.types import DataType

COUNTED = "$counted"
"""The column that says of a row whether it counts."""
_TYPE = DataType("BOOLEAN", nullable=False)


def with_total_rows(plan: Node, dialect: Dialect) -> Node:
    """Let aggregates without keys give a row over no rows, where the dialect says so."""
    return plan.transform(_with_row) if dialect is Dialect.SPARK else plan


def lacks_row(node: Aggregate) -> bool:
    """Whether an aggregate gives no row before its first one."""
    return not node.keys and not is_windowed(node) and COUNTED not in node.input.fields


def _read(node: Aggregate) -> tuple[str, ...]:
    """List the columns that the aggregates read."""
    names: dict[str, None] = {}
    for _, call in node.aggregates:
        names.update(dict.fromkeys(call.arguments))
        names.update(dict.fromkeys(key.column for key in call.order_by))
        names.update({call.filter: None} if call.filter else {})
    return tuple(names)


def _with_row(node: Node) -> Node:
    if not isinstance(node, Aggregate) or not lacks_row(node):
        return node
    fields = node.input.fields.only(_read(node))
    columns = [(each.name, ColumnRef(each.type, each.name)) for each in fields]
    rows = Project(node.input, (*columns, (COUNTED, Literal(_TYPE, True))))
    nullable = [replace(each, type=each.type.with_nullable(True)) for each in fields]
    values = (*(Literal(each.type, None) for each in nullable), Literal(_TYPE, False))
    row = Values(Fields((*nullable, Field(COUNTED, _TYPE))), (values,))
    calls = tuple(
        (name, replace(call, filter=call.filter or COUNTED)) for name, call in node.aggregates
    )
    return Aggregate(SetOperation(rows, row, SetKind.UNION, all=True), (), calls)
