"""What holds of all that the nodes of plans give: it is as the node says."""

from typing import Any

import numpy as np
import pyarrow as pa

from pkray.relational.continuous import graph
from pkray.relational.continuous.changes import Changes
from pkray.relational.local import engine
from pkray.relational.plan.changelog_modes import ChangelogMode
from pkray.relational.plan.nodes import Node, Scan
from pkray.relational.sources.table import TableSource
from pkray.schema.row_kind import DELETE, INSERT, SHORT, UPDATE_AFTER, UPDATE_BEFORE


def watch_nodes() -> None:
    """Check from now on what each node gives, in bounded and in continuous runs."""
    engine.WATCHES.append(check)
    graph.WATCHES.append(check_changes)


def check(node: Node, batch: pa.RecordBatch) -> None:
    """Refuse a batch whose schema, or whose NULLs, are others than the node's."""
    said, schema = f"a batch of {type(node).__name__}", node.fields.arrow
    assert batch.schema.equals(schema), f"{said} has\n{batch.schema}\nnot\n{schema}"
    batch.validate()
    for field, column in zip(schema, batch.columns, strict=True):
        assert not _has_null(field, column), f"{said} has NULL in {field}"


def check_changes(node: Node, mode: ChangelogMode, changes: Changes) -> None:
    """Refuse changes whose rows are others than the node's, or whose kinds are none of its."""
    check(node, changes.rows)
    said, kinds = f"changes of {type(node).__name__}", changes.kinds
    assert kinds.dtype == np.int8, f"{said} have kinds of {kinds.dtype}"
    rows = changes.rows.num_rows
    assert len(kinds) == rows, f"{said} have {len(kinds)} kinds for {rows} rows"
    known = {INSERT}
    if "U" in mode.kinds:
        known |= {UPDATE_BEFORE, UPDATE_AFTER}
    if "D" in mode.kinds or _loses_rows(node):
        known.add(DELETE)
    other = set(np.unique(kinds).tolist()) - known
    names = [SHORT[each] if each in range(len(SHORT)) else str(each) for each in other]
    assert not other, f"{said} are {names} in mode {mode}"


def _loses_rows(node: Node) -> bool:
    """Whether it reads a table of first rows: those who drop some of them say so to who reads."""
    sources = (each.source for each in node.walk() if isinstance(each, Scan))
    tables = (each.schema for each in sources if isinstance(each, TableSource))
    return any(each.core.merge_engine == "first-row" for each in tables)


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
