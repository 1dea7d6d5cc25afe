"""Manifests, files, partitions, buckets and indexes: the system tables of one snapshot.

Source: "System Tables" in Apache Paimon, for names and columns. Times are in UTC.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pkray.commit.index_files import index_entries
from pkray.format import binary_row
from pkray.format.data_file import ADD, APPEND_SOURCE, COMPACT_SOURCE, DataFileMeta
from pkray.format.partition import PartitionSpec
from pkray.format.partition_text import value_text
from pkray.format.snapshot import COMPACT, Snapshot
from pkray.metadata.live import data_manifests, delta_entries, read_list
from pkray.scan.file_set import FileSet
from pkray.scan.file_set_cache import file_sets
from pkray.scan.file_statistics import FileStatistics
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import INTEGERS, STRINGS, DataType
from pkray.system.source import MILLIS, Source, optional, required, table

_INT, _LONG, _TEXT = pa.int32(), pa.int64(), pa.string()
_SOURCES = {None: None, APPEND_SOURCE: "APPEND", COMPACT_SOURCE: "COMPACT"}

_MANIFESTS = (
    required("file_name", _TEXT, "file_name"),
    required("file_size", _LONG, "file_size"),
    required("num_added_files", _LONG, "num_added_files"),
    required("num_deleted_files", _LONG, "num_deleted_files"),
    required("schema_id", _LONG, "schema_id"),
    optional("min_partition_stats", _TEXT),
    optional("max_partition_stats", _TEXT),
)
_FILES = (
    optional("partition", _TEXT),
    required("bucket", _INT),
    required("file_path", _TEXT),
    required("file_format", _TEXT, lambda file: file.file_name.rpartition(".")[2]),
    required("schema_id", _LONG, "schema_id"),
    required("level", _INT, "level"),
    required("record_count", _LONG, "row_count"),
    required("file_size_in_bytes", _LONG, "file_size"),
    optional("min_key", _TEXT),
    optional("max_key", _TEXT),
    required("null_value_counts", _TEXT),
    required("min_value_stats", _TEXT),
    required("max_value_stats", _TEXT),
    optional("min_sequence_number", _LONG, "min_sequence_number"),
    optional("max_sequence_number", _LONG, "max_sequence_number"),
    optional("creation_time", MILLIS, "creation_time"),
    optional("delete_row_count", _LONG, "delete_row_count"),
    optional("file_source", _TEXT, lambda file: _SOURCES.get(file.file_source)),
)
_TOTALS = (
    required("record_count", _LONG),
    required("file_size_in_bytes", _LONG),
    required("file_count", _LONG),
    optional("last_update_time", MILLIS),
)
_PARTITIONS = (optional("partition", _TEXT), *_TOTALS, required("total_buckets", _INT))
_BUCKETS = (optional("partition", _TEXT), required("bucket", _INT), *_TOTALS)


class _Compaction(NamedTuple):
    """Describe what a compaction did in a bucket."""

    snapshot: Snapshot
    partition: bytes
    bucket: int
    before: list[DataFileMeta]
    after: list[DataFileMeta]


_COMPACTIONS = (
    required("snapshot_id", _LONG, "snapshot.id"),
    required("commit_time", MILLIS, "snapshot.time_millis"),
    optional("partition", _TEXT),
    required("bucket", _INT, "bucket"),
    required("files_before", _LONG, lambda done: len(done.before)),
    required("files_after", _LONG, lambda done: len(done.after)),
    required("bytes_before", _LONG, lambda done: sum(each.file_size for each in done.before)),
    required("bytes_after", _LONG, lambda done: sum(each.file_size for each in done.after)),
    required("rows_before", _LONG, lambda done: sum(each.row_count for each in done.before)),
    required("rows_after", _LONG, lambda done: sum(each.row_count for each in done.after)),
    optional("level", _INT, lambda done: max((each.level for each in done.after), default=None)),
)
_RANGE = pa.struct(
    [
        pa.field("f0", _TEXT, nullable=False),
        pa.field("f1", _INT, nullable=False),
        pa.field("f2", _INT, nullable=False),
        pa.field("_CARDINALITY", _LONG),
    ]
)
_INDEXES = (
    optional("partition", _TEXT),
    required("bucket", _INT, "bucket"),
    required("index_type", _TEXT, "file.index_type"),
    required("file_name", _TEXT, "file.file_name"),
    required("file_size", _LONG, "file.file_size"),
    required("row_count", _LONG, "file.row_count"),
    optional("dv_ranges", pa.list_(_RANGE)),
)


def manifests(source: Source) -> pa.Table:
    """Show the manifests of the snapshot: of data files, oldest first, then of changelog files."""
    found = []
    if source.snapshot is not None:
        found = data_manifests(source.store, source.snapshot)
        if source.snapshot.changelog_manifest_list is not None:
            found += read_list(source.store, source.snapshot.changelog_manifest_list)
    stats = [manifest.partition_stats for manifest in found]
    return table(
        _MANIFESTS,
        found,
        min_partition_stats=_partitions([each.min_values for each in stats], source),
        max_partition_stats=_partitions([each.max_values for each in stats], source),
    )


def files(source: Source) -> pa.Table:
    """Show the data files of the snapshot, in the order in which they were added.

    Statistics are of the table's columns now; ``null`` is unknown.
    """
    found = _live(source)
    metas = found.files(np.arange(len(found)))
    indices, partitions = found.partitions
    folders = [PartitionSpec(source.schema).path(partition) for partition in partitions]
    shown = _partitions(partitions, source)
    buckets = found.numbers("bucket").tolist()
    names = [
        file.external_path
        or source.store.location(f"{folders[code]}bucket-{bucket}/{file.file_name}")
        for code, bucket, file in zip(indices, buckets, metas, strict=True)
    ]
    return table(
        _FILES,
        metas,
        partition=[shown[code] for code in indices],
        bucket=buckets,
        file_path=names,
        min_key=_keys([file.min_key for file in metas], source),
        max_key=_keys([file.max_key for file in metas], source),
        **_statistics(found, source),
    )


def partitions(source: Source) -> pa.Table:
    """Show the partitions, as ``dt=a/hour=1``; none in a table without partitions."""
    found = _live(source)
    indices, rows = found.partitions
    spec = PartitionSpec(source.schema)
    totals = _totals(found, indices[:, np.newaxis])
    places = [int(code) for (code,) in totals.pop("group")]
    buckets = found.numbers("total_buckets")
    return table(
        _PARTITIONS,
        partition=[spec.text(rows[code]) for code in places],
        **totals,
        total_buckets=[int(buckets[indices == code].max()) for code in places],
    ).sort_by("partition")


def buckets(source: Source) -> pa.Table:
    """Show the buckets of each partition."""
    found = _live(source)
    indices, rows = found.partitions
    totals = _totals(found, np.stack([indices, found.numbers("bucket")], axis=1))
    groups = totals.pop("group")
    shown = _partitions(rows, source)
    return table(
        _BUCKETS,
        partition=[shown[code] for code, _ in groups],
        bucket=[int(bucket) for _, bucket in groups],
        **totals,
    ).sort_by([("partition", "ascending"), ("bucket", "ascending")])


def compactions(source: Source) -> pa.Table:
    """Show what compaction did in the snapshots that are kept, a row a bucket, oldest first: the
    files that were merged, those that came of them, and the level of these."""
    found: list[_Compaction] = []
    for snapshot in source.snapshots.all():
        if snapshot.commit_kind != COMPACT:
            continue
        merged: dict[tuple[bytes, int], _Compaction] = {}
        for entry in delta_entries(source.store, snapshot):
            place = entry.partition, entry.bucket
            done = merged.setdefault(place, _Compaction(snapshot, *place, [], []))
            (done.after if entry.kind == ADD else done.before).append(entry.file)
        found += merged.values()
    shown = _partitions([each.partition for each in found], source)
    return table(_COMPACTIONS, found, partition=shown)


def table_indexes(source: Source) -> pa.Table:
    """Show the index files of the snapshot: hash indexes and deletion vectors."""
    found = index_entries(source.store, source.snapshot)
    ranges = [
        None
        if entry.file.deletion_vectors is None
        else [
            {"f0": r.data_file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality}
            for r in entry.file.deletion_vectors
        ]
        for entry in found
    ]
    shown = _partitions([entry.partition for entry in found], source)
    return table(_INDEXES, found, partition=shown, dv_ranges=ranges)


def _partitions(rows: Sequence[bytes], source: Source) -> list[str]:
    return partitions_shown(rows, source.schema)


def _live(source: Source) -> FileSet:
    if source.snapshot is None:
        return FileSet.empty()
    return file_sets.read(source.store, data_manifests(source.store, source.snapshot))


def partitions_shown(rows: Sequence[bytes], schema: TableSchema) -> list[str]:
    """Write partitions as system tables have them.

    Args:
        rows: the partitions, as manifests hold them.
    """
    types = schema.types(schema.partition_keys)
    return rows_of(binary_row.decode(rows, types), types) if types else ["{}"] * len(rows)


def _keys(rows: Sequence[bytes], source: Source) -> list[str]:
    types = source.schema.types(source.schema.trimmed_primary_keys)
    return rows_of(binary_row.decode(rows, types), types, "[]")


def _statistics(found: FileSet, source: Source) -> dict[str, list[str]]:
    schema = source.schema
    known = FileStatistics(found, schema, source.schemas.read).of_values(schema.names)
    unknown = [NULL] * len(found)
    least, greatest, nulls = {}, {}, {}
    for field in schema.fields:
        name = field.name
        if name not in known.least:
            least[name] = greatest[name] = nulls[name] = unknown
            continue
        least[name] = texts(known.least[name], field.type)
        greatest[name] = texts(known.greatest[name], field.type)
        nulls[name] = [NULL if count < 0 else str(count) for count in known.nulls[name].tolist()]
    return {
        "null_value_counts": maps_of(nulls, len(found)),
        "min_value_stats": maps_of(least, len(found)),
        "max_value_stats": maps_of(greatest, len(found)),
    }


def _totals(found: FileSet, groups: np.ndarray) -> dict[str, list[Any]]:
    """Sum over the files of each group; return the sums and the groups."""
    present, of_file = np.unique(groups, axis=0, return_inverse=True)
    of_file = of_file.reshape(-1)
    newest = np.full(len(present), -1, np.int64)
    np.maximum.at(newest, of_file, _creation_times(found.files(np.arange(len(found)))))
    sums = {
        "record_count": found.numbers("rows"),
        "file_size_in_bytes": found.numbers("size"),
        "file_count": np.ones(len(found), np.int64),
    }
    totals = {name: np.zeros(len(present), np.int64) for name in sums}
    for name, values in sums.items():
        np.add.at(totals[name], of_file, values)
    return {
        "group": present.tolist(),
        **{name: values.tolist() for name, values in totals.items()},
        "last_update_time": [None if time < 0 else time for time in newest.tolist()],
    }


def _creation_times(metas: Sequence[DataFileMeta]) -> np.ndarray:
    times = [-1 if file.creation_time is None else file.creation_time for file in metas]
    return np.array(times, np.int64)


NULL = "null"


def texts(column: pa.Array, kind: DataType) -> list[str]:
    """Write each value as SQL casts it to a string; ``null`` where there is none."""
    if kind.root in INTEGERS or kind.root in STRINGS:
        plain = column.cast(pa.string()).to_pylist()
        return [NULL if value is None else value for value in plain]
    return [value_text(value, kind) if value.is_valid else NULL for value in column]


def rows_of(
    columns: Sequence[pa.Array], types: Sequence[DataType], brackets: str = "{}"
) -> list[str]:
    """Write each row as ``{a, b}``."""
    shown = [texts(column, kind) for column, kind in zip(columns, types, strict=True)]
    return [f"{brackets[0]}{', '.join(row)}{brackets[1]}" for row in zip(*shown, strict=True)]


def maps_of(columns: Mapping[str, Iterable[str]], count: int) -> list[str]:
    """Write each row as ``{a=1, b=2}``, by column name."""
    if not columns:
        return ["{}"] * count
    names = sorted(columns)
    rows = zip(*(columns[name] for name in names), strict=True)
    return [
        "{" + ", ".join(f"{name}={value}" for name, value in zip(names, row, strict=True)) + "}"
        for row in rows
    ]
