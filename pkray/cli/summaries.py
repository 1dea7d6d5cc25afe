"""Describes tables and snapshots as the commands print them."""

from typing import Any

from pkray.format.snapshot import Snapshot
from pkray.schema.types import DataType
from pkray.table.system_table import SystemTable
from pkray.table.table import Table


def described(table: Table | SystemTable) -> dict[str, Any]:
    """Describe a table."""
    if isinstance(table, SystemTable):
        fields = table.arrow_schema
        columns = [{"name": each.name, "type": str(DataType.from_field(each))} for each in fields]
        return {"table": table.name, "columns": columns}
    schema = table.schema
    columns = [
        {"name": field.name, "type": str(field.type), "description": field.description}
        for field in schema.fields
    ]
    return {
        "table": table.name,
        "location": table.location.url,
        "comment": schema.comment,
        "columns": columns,
        "primary_key": list(schema.primary_keys),
        "partition_by": list(schema.partition_keys),
        "options": schema.options,
        "schema_id": schema.id,
        **committed(table.latest_snapshot()),
    }


def committed(snapshot: Snapshot | None) -> dict[str, Any]:
    """Describe a snapshot, where there is one."""
    if snapshot is None:
        return {"snapshot": None}
    return {
        "snapshot": snapshot.id,
        "commit_kind": snapshot.commit_kind,
        "commit_user": snapshot.commit_user,
        "commit_identifier": snapshot.commit_identifier,
        "total_record_count": snapshot.total_record_count,
    }
