"""Snapshots and files as tables people can read."""

from __future__ import annotations

import pyarrow as pa

from pkray.commit.snapshots import SnapshotStore
from pkray.format import binary_row
from pkray.format.partition import PartitionSpec
from pkray.format.snapshot import Snapshot
from pkray.scan.files import live_files
from pkray.schema import TableSchema
from pkray.storage.object_store import ObjectStore

_MILLIS = pa.timestamp("ms", tz="UTC")
_SNAPSHOTS = pa.schema(
    [
        ("snapshot_id", pa.int64()),
        ("schema_id", pa.int64()),
        ("commit_user", pa.string()),
        ("commit_identifier", pa.int64()),
        ("commit_kind", pa.string()),
        ("commit_time", _MILLIS),
        ("total_record_count", pa.int64()),
        ("delta_record_count", pa.int64()),
        ("changelog_record_count", pa.int64()),
        ("watermark", pa.int64()),
    ]
)


def snapshots_table(snapshots: SnapshotStore) -> pa.Table:
    """A row a snapshot, oldest first; counts are of physical rows."""
    found = list(snapshots.all())
    columns = [
        [s.id for s in found],
        [s.schema_id for s in found],
        [s.commit_user for s in found],
        [s.commit_identifier for s in found],
        [s.commit_kind for s in found],
        [s.time_millis for s in found],
        [s.total_record_count for s in found],
        [s.delta_record_count for s in found],
        [s.changelog_record_count for s in found],
        [s.watermark for s in found],
    ]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, _SNAPSHOTS, strict=True)],
        schema=_SNAPSHOTS,
    )


def files_table(store: ObjectStore, schema: TableSchema, snapshot: Snapshot | None) -> pa.Table:
    """A row a live data file: its bucket, level, sizes, keys and sequence numbers."""
    entries = live_files(store, snapshot, schema) if snapshot else []
    files = [entry.file for entry in entries]
    partitions = PartitionSpec(schema)
    paths = {p: partitions.path(p) for p in {entry.partition for entry in entries}}
    keys = list(schema.trimmed_primary_keys)
    columns = {
        "partition": pa.array([paths[e.partition].rstrip("/") for e in entries], pa.string()),
        "bucket": pa.array([e.bucket for e in entries], pa.int32()),
        "level": pa.array([f.level for f in files], pa.int32()),
        "file_path": pa.array(
            [f"{paths[e.partition]}bucket-{e.bucket}/{e.file.file_name}" for e in entries],
            pa.string(),
        ),
        "schema_id": pa.array([f.schema_id for f in files], pa.int64()),
        "record_count": pa.array([f.row_count for f in files], pa.int64()),
        "delete_record_count": pa.array([f.delete_row_count for f in files], pa.int64()),
        "file_size_in_bytes": pa.array([f.file_size for f in files], pa.int64()),
        "min_key": _keys([f.min_key for f in files], keys, schema),
        "max_key": _keys([f.max_key for f in files], keys, schema),
        "min_sequence_number": pa.array([f.min_sequence_number for f in files], pa.int64()),
        "max_sequence_number": pa.array([f.max_sequence_number for f in files], pa.int64()),
        "creation_time": pa.array([f.creation_time for f in files], pa.int64()).cast(_MILLIS),
    }
    return pa.table(columns)


def _keys(rows: list[bytes], names: list[str], schema: TableSchema) -> pa.StructArray:
    types = schema.types(names)
    arrays = binary_row.decode(rows, types) if rows else [pa.array([], t.arrow) for t in types]
    return pa.StructArray.from_arrays(arrays, names=names)
