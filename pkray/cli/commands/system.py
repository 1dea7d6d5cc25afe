"""The commands ``pkray system``, ``snapshots`` and ``files``: what a table holds of itself."""

from typing import Annotated

import typer

from pkray.api.catalog import Catalog
from pkray.cli import arguments, output
from pkray.cli.arguments import Json, SnapshotId, TableName, TagName, Timestamp
from pkray.cli.warehouse import on_warehouse
from pkray.system import SYSTEM_TABLES

# What people want to see first, by its heading; --json has every column.
_SNAPSHOT_COLUMNS = {
    "snapshot": "snapshot_id",
    "kind": "commit_kind",
    "time": "commit_time",
    "rows": "total_record_count",
    "added": "delta_record_count",
    "changes": "changelog_record_count",
    "identifier": "commit_identifier",
    "user": "commit_user",
}
_FILE_COLUMNS = {
    "partition": "partition",
    "bucket": "bucket",
    "level": "level",
    "rows": "record_count",
    "bytes": "file_size_in_bytes",
    "least key": "min_key",
    "greatest key": "max_key",
    "file": "file_path",
}
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


@on_warehouse
def system(
    catalog: Catalog,
    table: TableName,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"The system table: {', '.join(SYSTEM_TABLES)}.")
    ],
    snapshot: SnapshotId = None,
    tag: TagName = None,
    timestamp: Timestamp = None,
    as_json: Json = False,
) -> None:
    """Print what a table holds of itself: its snapshots, files, options and more."""
    moment = arguments.moment(snapshot, tag, timestamp)
    found = catalog.load_table(table).system(name, **moment.named)
    shown = {column: column for column in _SHOWN.get(name, found.schema.names)}
    output.table(found, as_json, shown)


@on_warehouse
def snapshots(catalog: Catalog, table: TableName, as_json: Json = False) -> None:
    """List the snapshots, oldest first."""
    output.table(catalog.load_table(table).snapshots(), as_json, _SNAPSHOT_COLUMNS)


@on_warehouse
def files(
    catalog: Catalog, table: TableName, snapshot: SnapshotId = None, as_json: Json = False
) -> None:
    """List the data files of a snapshot."""
    output.table(catalog.load_table(table).files(snapshot), as_json, _FILE_COLUMNS)
