"""The columns of a result table as another plan takes over."""

from collections.abc import Sequence
from itertools import pairwise

from pkray.clock import now_millis
from pkray.relational.plan.nodes import Sink
from pkray.relational.plan.plan_diff import result_types
from pkray.schema import changes as schema_changes
from pkray.schema.schema_update import apply_changes
from pkray.schema.table_schema import TableSchema
from pkray.schema.type_change import widens
from pkray.table.table import Table


def grown(schema: TableSchema, old: Sequence[str], new: Sink) -> list[schema_changes.SchemaChange]:
    """List what a table needs to hold the newer result beside what it holds.

    Args:
        old: the columns of the older result.
    """
    wanted, there = result_types(new), {each.name: each.type for each in schema.fields}
    changes: list[schema_changes.SchemaChange] = []
    for name, kind in wanted.items():
        if name not in there:
            changes.append(schema_changes.AddColumn(name, str(kind.with_nullable(True))))
            continue
        same = str(there[name].with_nullable(True)) == str(kind.with_nullable(True))
        if not same and not widens(kind, there[name]):  # a wider one holds the rows as well
            changes.append(schema_changes.ChangeType(name, str(kind.with_nullable(True))))
        if kind.nullable and not there[name].nullable and name not in schema.primary_keys:
            changes.append(schema_changes.ChangeNullability(name, True))
    gone = _gone(schema, old, new)
    changes += [
        schema_changes.ChangeNullability(name, True) for name in gone if not there[name].nullable
    ]
    return changes


def shrunk(schema: TableSchema, old: Sequence[str], new: Sink) -> list[schema_changes.SchemaChange]:
    """List what the table needs no more once it holds the newer result alone."""
    gone = _gone(schema, old, new)
    left = [name for name in schema.names if name not in gone]
    changes: list[schema_changes.SchemaChange] = [schema_changes.DropColumn(name) for name in gone]
    if set(left) != set(new.target) or left == list(new.target):
        return changes
    moves = [schema_changes.MoveColumn(name, after=before) for before, name in pairwise(new.target)]
    return [*changes, schema_changes.MoveColumn(new.target[0], first=True), *moves]


def _gone(schema: TableSchema, old: Sequence[str], new: Sink) -> list[str]:
    """List the columns of the older result that the newer one has not."""
    return [name for name in schema.names if name in old and name not in new.target]


def check_columns(table: Table, old: Sequence[str], new: Sink) -> None:
    """Check that a table can have the columns of a newer result.

    Raises:
        SchemaError, UnsupportedError: it cannot.
    """
    schema = table.schema
    for changes in (grown(schema, old, new), shrunk(schema, old, new)):
        if changes:
            schema = apply_changes(schema, changes, has_snapshots=True, now_millis=now_millis())
