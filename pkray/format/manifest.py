"""Manifests, manifest lists and index manifests: lists of files in Avro.

Reads what Java 0.9 (newer fields absent), pypaimon 2.1 and pypaimon-rust 0.4 (fields added)
wrote; writes the schemas of :mod:`pkray.format.avro.schemas`, compressed as
``manifest.compression`` says (zstd, snappy, none or default, which is zstd).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from pkray.arguments.file_names import checked
from pkray.errors import CorruptFileError
from pkray.format.avro import schemas as avro_schemas
from pkray.format.avro.files import Expected, read_records, write_records
from pkray.format.data_file import DataFileMeta, ManifestEntry, SimpleStats
from pkray.format.index_file import DeletionVectorRange, IndexFileMeta

_MANIFEST_VERSION = 2
_INDEX_MANIFEST_VERSION = 1
_POSTPONED = -2
"""Stands for a number of buckets, as -1 does where they are dynamic; no other such number does."""
_ENTRIES = Expected(avro_schemas.MANIFEST_ENTRY)
_LIST = Expected(avro_schemas.MANIFEST_LIST)
_INDEXES = Expected(avro_schemas.INDEX_MANIFEST_ENTRY)


class ManifestFileMeta(msgspec.Struct, frozen=True, kw_only=True):
    """Describes a manifest as a manifest list does.

    Buckets, levels and row ids bound those of the entries; None where the writer did not say.
    """

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None

    def __post_init__(self) -> None:
        checked(self.file_name)


class IndexManifestEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One index file added to or deleted from a bucket. ``kind`` is ADD (0) or DELETE (1)."""

    kind: int
    partition: bytes
    bucket: int
    file: IndexFileMeta


def read_manifest(data: bytes, path: str, file_size: int | None = None) -> list[ManifestEntry]:
    """Read the entries of a manifest, in the order written.

    Args:
        file_size: what the manifest list says it has. Avro alone cannot tell a file cut off
            between two blocks from a whole one.

    Raises:
        CorruptFileError: the bytes are no manifest, or end early; names ``path``.
    """
    if file_size is not None and len(data) != file_size:
        raise _damaged("manifest", path, data, f"it should have {file_size} bytes")
    return _read(data, path, "manifest", _ENTRIES, _entry)


def write_manifest(entries: Iterable[ManifestEntry], compression: str = "zstd") -> bytes:
    """Make a manifest's file."""
    return write_records(avro_schemas.MANIFEST_ENTRY, map(_entry_record, entries), compression)


def read_manifest_list(data: bytes, path: str) -> list[ManifestFileMeta]:
    """Read the manifests a manifest list names.

    Raises:
        CorruptFileError: the bytes are no manifest list, or end early; names ``path``.
    """
    return _read(data, path, "manifest list", _LIST, _manifest_meta)


def write_manifest_list(manifests: Iterable[ManifestFileMeta], compression: str = "zstd") -> bytes:
    """Make a manifest list's file."""
    return write_records(avro_schemas.MANIFEST_LIST, map(_manifest_record, manifests), compression)


def read_index_manifest(data: bytes, path: str) -> list[IndexManifestEntry]:
    """Read the entries of an index manifest.

    Raises:
        CorruptFileError: the bytes are no index manifest, or end early; names ``path``.
    """
    return _read(data, path, "index manifest", _INDEXES, _index_entry)


def write_index_manifest(entries: Iterable[IndexManifestEntry], compression: str = "zstd") -> bytes:
    """Make an index manifest's file."""
    return write_records(
        avro_schemas.INDEX_MANIFEST_ENTRY, map(_index_record, entries), compression
    )


def _read(data: bytes, path: str, what: str, expected: Expected, convert: Any) -> list[Any]:
    try:
        return [convert(record) for record in read_records(data, expected)]
    except Exception as error:  # damaged Avro surfaces as almost any exception type
        raise _damaged(what, path, data, f"{type(error).__name__}: {error}") from error


def _damaged(what: str, path: str, data: bytes, reason: str) -> CorruptFileError:
    return CorruptFileError(
        f"{what} {path} is damaged ({len(data)} bytes): {reason}; "
        "restore it, or go back to a snapshot without it",
        path=path,
        reason=reason,
    )


def _tuple(values: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _list(values: Sequence[str] | None) -> list[str] | None:
    """A list, as fastavro takes a tuple in a union for (branch, value)."""
    return None if values is None else list(values)


def _stats(record: dict[str, Any]) -> SimpleStats:
    return SimpleStats(
        record["_MIN_VALUES"], record["_MAX_VALUES"], tuple(record["_NULL_COUNTS"] or ())
    )


def _stats_record(stats: SimpleStats) -> dict[str, Any]:
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": list(stats.null_counts),
    }


def _entry(record: dict[str, Any]) -> ManifestEntry:
    file = record["_FILE"]
    optional = file.get
    return ManifestEntry(
        record["_KIND"],
        record["_PARTITION"],
        record["_BUCKET"],
        _total_buckets(record["_TOTAL_BUCKETS"]),
        DataFileMeta(
            file_name=file["_FILE_NAME"],
            file_size=file["_FILE_SIZE"],
            row_count=file["_ROW_COUNT"],
            min_key=file["_MIN_KEY"],
            max_key=file["_MAX_KEY"],
            key_stats=_stats(file["_KEY_STATS"]),
            value_stats=_stats(file["_VALUE_STATS"]),
            min_sequence_number=file["_MIN_SEQUENCE_NUMBER"],
            max_sequence_number=file["_MAX_SEQUENCE_NUMBER"],
            schema_id=file["_SCHEMA_ID"],
            level=file["_LEVEL"],
            extra_files=tuple(file["_EXTRA_FILES"]),
            creation_time=optional("_CREATION_TIME"),
            delete_row_count=optional("_DELETE_ROW_COUNT"),
            embedded_index=optional("_EMBEDDED_FILE_INDEX"),
            file_source=optional("_FILE_SOURCE"),
            value_stats_cols=_tuple(optional("_VALUE_STATS_COLS")),
            external_path=optional("_EXTERNAL_PATH"),
            first_row_id=optional("_FIRST_ROW_ID"),
            write_cols=_tuple(optional("_WRITE_COLS")),
        ),
    )


def _total_buckets(count: int) -> int:
    if count == 0 or count < _POSTPONED:
        raise ValueError(f"its rows are spread over {count} buckets")
    return count


def _entry_record(entry: ManifestEntry) -> dict[str, Any]:
    file = entry.file
    return {
        "_VERSION": _MANIFEST_VERSION,
        "_KIND": entry.kind,
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": {
            "_FILE_NAME": file.file_name,
            "_FILE_SIZE": file.file_size,
            "_ROW_COUNT": file.row_count,
            "_MIN_KEY": file.min_key,
            "_MAX_KEY": file.max_key,
            "_KEY_STATS": _stats_record(file.key_stats),
            "_VALUE_STATS": _stats_record(file.value_stats),
            "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
            "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
            "_SCHEMA_ID": file.schema_id,
            "_LEVEL": file.level,
            "_EXTRA_FILES": file.extra_files,
            "_CREATION_TIME": file.creation_time,
            "_DELETE_ROW_COUNT": file.delete_row_count,
            "_EMBEDDED_FILE_INDEX": file.embedded_index,
            "_FILE_SOURCE": file.file_source,
            "_VALUE_STATS_COLS": _list(file.value_stats_cols),
            "_EXTERNAL_PATH": file.external_path,
            "_FIRST_ROW_ID": file.first_row_id,
            "_WRITE_COLS": _list(file.write_cols),
        },
    }


def _manifest_meta(record: dict[str, Any]) -> ManifestFileMeta:
    optional = record.get
    return ManifestFileMeta(
        file_name=record["_FILE_NAME"],
        file_size=record["_FILE_SIZE"],
        num_added_files=record["_NUM_ADDED_FILES"],
        num_deleted_files=record["_NUM_DELETED_FILES"],
        partition_stats=_stats(record["_PARTITION_STATS"]),
        schema_id=record["_SCHEMA_ID"],
        min_bucket=optional("_MIN_BUCKET"),
        max_bucket=optional("_MAX_BUCKET"),
        min_level=optional("_MIN_LEVEL"),
        max_level=optional("_MAX_LEVEL"),
        min_row_id=optional("_MIN_ROW_ID"),
        max_row_id=optional("_MAX_ROW_ID"),
    )


def _manifest_record(meta: ManifestFileMeta) -> dict[str, Any]:
    return {
        "_VERSION": _MANIFEST_VERSION,
        "_FILE_NAME": meta.file_name,
        "_FILE_SIZE": meta.file_size,
        "_NUM_ADDED_FILES": meta.num_added_files,
        "_NUM_DELETED_FILES": meta.num_deleted_files,
        "_PARTITION_STATS": _stats_record(meta.partition_stats),
        "_SCHEMA_ID": meta.schema_id,
        "_MIN_BUCKET": meta.min_bucket,
        "_MAX_BUCKET": meta.max_bucket,
        "_MIN_LEVEL": meta.min_level,
        "_MAX_LEVEL": meta.max_level,
        "_MIN_ROW_ID": meta.min_row_id,
        "_MAX_ROW_ID": meta.max_row_id,
    }


def _index_entry(record: dict[str, Any]) -> IndexManifestEntry:
    ranges = record.get("_DELETIONS_VECTORS_RANGES")
    file = IndexFileMeta(
        index_type=record["_INDEX_TYPE"],
        file_name=record["_FILE_NAME"],
        file_size=record["_FILE_SIZE"],
        row_count=record["_ROW_COUNT"],
        deletion_vectors=None if ranges is None else tuple(_range(each) for each in ranges),
        external_path=record.get("_EXTERNAL_PATH"),
    )
    return IndexManifestEntry(
        kind=record["_KIND"], partition=record["_PARTITION"], bucket=record["_BUCKET"], file=file
    )


def _range(record: dict[str, Any]) -> DeletionVectorRange:
    return DeletionVectorRange(record["f0"], record["f1"], record["f2"], record.get("_CARDINALITY"))


def _index_record(entry: IndexManifestEntry) -> dict[str, Any]:
    file = entry.file
    ranges = file.deletion_vectors
    return {
        "_VERSION": _INDEX_MANIFEST_VERSION,
        "_KIND": entry.kind,
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": file.index_type,
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_DELETIONS_VECTORS_RANGES": None
        if ranges is None
        else [
            {"f0": r.data_file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality}
            for r in ranges
        ],
        "_EXTERNAL_PATH": file.external_path,
    }
