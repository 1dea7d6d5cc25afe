"""What holds of every batch that a node of the local engine gives: it is as the node says."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pkray.relational.plan.nodes import Node


def check(node: Node, batch: pa.RecordBatch) -> None:
    """Refuse a batch whose schema, or whose NULLs, are others than the node's."""
    said, schema = f"a batch of {type(node).__name__}", node.fields.arrow
    assert batch.schema.equals(schema), f"{said} has\n{batch.schema}\nnot\n{schema}"
    batch.validate()
    for field, column in zip(schema, batch.columns, strict=True):
        assert not _has_null(field, column), f"{said} has NULL in {field}"


def _has_null(field: pa.Field, column: Any) -> bool:
    """Whether a value is NULL, also in rows and lists, that cannot be."""
    if not field.nullable and column.null_count:
        return True
    kind = field.type
    if pa.types.is_struct(kind):
        there = column.filter(column.is_valid()) if column.null_count else column
        return any(_has_null(kind.field(i), there.field(i)) for i in range(kind.num_fields))
    if pa.types.is_list(kind):
        return _has_null(kind.value_field, column.flatten())
    if pa.types.is_map(kind):
        there = column.filter(column.is_valid()) if column.null_count else column
        return _has_null(kind.item_field, there.items) or _has_null(kind.key_field, there.keys)
    return False
