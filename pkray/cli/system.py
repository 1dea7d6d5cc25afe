"""The command ``pkray system``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pkray.catalog import connect
from pkray.cli import arguments, output
from pkray.cli.arguments import (
    WAREHOUSE,
    Json,
    SnapshotId,
    Storage,
    TableName,
    TagName,
    Timestamp,
    Warehouse,
)
from pkray.system.tables import TABLES

# What people want to see first, in tables too wide for a terminal; --json has every column.
_SHOWN = {
    "snapshots": (
        "snapshot_id", "commit_kind", "commit_time", "total_record_count", "delta_record_count",
        "changelog_record_count", "commit_identifier", "commit_user", "schema_id", "watermark",
    ),
    "schemas": ("schema_id", "update_time", "primary_keys", "partition_keys", "fields", "comment"),
    "manifests": (
        "num_added_files", "num_deleted_files", "file_size", "schema_id", "min_partition_stats",
        "max_partition_stats", "file_name",
    ),
    "files": (
        "partition", "bucket", "level", "record_count", "delete_row_count", "file_size_in_bytes",
        "min_key", "max_key", "creation_time", "file_source", "file_path",
    ),
}  # fmt: skip


def system(
    table: TableName,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"The system table: {', '.join(TABLES)}.")
    ],
    snapshot: SnapshotId = None,
    tag: TagName = None,
    timestamp: Timestamp = None,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Print what a table holds of itself: its snapshots, files, options and more."""
    options: dict[str, Any] = dict(arguments.pairs(storage, "--storage"))
    with connect(warehouse, **options) as catalog:
        number, of_tag, moment = arguments.moment(snapshot, tag, timestamp)
        found = catalog.load_table(table).system(name, number, tag=of_tag, timestamp=moment)
        shown = {column: column for column in _SHOWN.get(name, found.schema.names)}
        output.table(found, as_json, shown)
