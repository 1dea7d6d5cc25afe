"""Snapshots, schemas, tags, branches and consumers: the system tables of a table's history.

Source: "System Tables" in Apache Paimon, for names and columns. Times are in UTC.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec
import pyarrow as pa

from pkray.errors import CorruptFileError
from pkray.expiration.branches import BranchHistories
from pkray.format import paths
from pkray.json_files import Long, decode
from pkray.metadata.consumers import ConsumerStore
from pkray.metadata.tags import TagStore
from pkray.system.source import MILLIS, Source, required, table

_LONG, _TEXT = pa.int64(), pa.string()

_SNAPSHOTS = pa.schema(
    [
        required("snapshot_id", _LONG),
        required("schema_id", _LONG),
        required("commit_user", _TEXT),
        required("commit_identifier", _LONG),
        required("commit_kind", _TEXT),
        required("commit_time", MILLIS),
        required("base_manifest_list", _TEXT),
        required("delta_manifest_list", _TEXT),
        ("changelog_manifest_list", _TEXT),
        ("total_record_count", _LONG),
        ("delta_record_count", _LONG),
        ("changelog_record_count", _LONG),
        ("watermark", _LONG),
    ]
)
_SCHEMAS = pa.schema(
    [
        required("schema_id", _LONG),
        required("fields", _TEXT),
        required("partition_keys", _TEXT),
        required("primary_keys", _TEXT),
        required("options", _TEXT),
        ("comment", _TEXT),
        required("update_time", MILLIS),
    ]
)
_OPTIONS = pa.schema([required("key", _TEXT), required("value", _TEXT)])
_TAGS = pa.schema(
    [
        required("tag_name", _TEXT),
        required("snapshot_id", _LONG),
        required("schema_id", _LONG),
        required("commit_time", MILLIS),
        ("record_count", _LONG),
        ("create_time", MILLIS),
        ("time_retained", _TEXT),
    ]
)
_BRANCHES = pa.schema([required("branch_name", _TEXT), required("create_time", MILLIS)])
_CONSUMERS = pa.schema([required("consumer_id", _TEXT), required("next_snapshot_id", _LONG)])
_AGGREGATION_FIELDS = pa.schema(
    [
        required("field_name", _TEXT),
        required("field_type", _TEXT),
        ("function", _TEXT),
        ("function_options", _TEXT),
        ("comment", _TEXT),
    ]
)
_STATISTICS = pa.schema(
    [
        required("snapshot_id", _LONG),
        required("schema_id", _LONG),
        ("mergedRecordCount", _LONG),
        ("mergedRecordSize", _LONG),
        ("colstat", _TEXT),
    ]
)


def snapshots(source: Source) -> pa.Table:
    """Show the snapshots, oldest first; counts are of physical rows."""
    found = list(source.snapshots.all())
    return table(
        _SNAPSHOTS,
        {
            "snapshot_id": [s.id for s in found],
            "schema_id": [s.schema_id for s in found],
            "commit_user": [s.commit_user for s in found],
            "commit_identifier": [s.commit_identifier for s in found],
            "commit_kind": [s.commit_kind for s in found],
            "commit_time": [s.time_millis for s in found],
            "base_manifest_list": [s.base_manifest_list for s in found],
            "delta_manifest_list": [s.delta_manifest_list for s in found],
            "changelog_manifest_list": [s.changelog_manifest_list for s in found],
            "total_record_count": [s.total_record_count for s in found],
            "delta_record_count": [s.delta_record_count for s in found],
            "changelog_record_count": [s.changelog_record_count for s in found],
            "watermark": [s.watermark for s in found],
        },
    )


def schemas(source: Source) -> pa.Table:
    """Show the schemas, the first one first; columns, keys and options as JSON."""
    found = [source.schemas.read(number) for number in source.schemas.ids()]
    return table(
        _SCHEMAS,
        {
            "schema_id": [s.id for s in found],
            "fields": [_json([field.to_json() for field in s.fields]) for s in found],
            "partition_keys": [_json(s.partition_keys) for s in found],
            "primary_keys": [_json(s.primary_keys) for s in found],
            "options": [_json(s.options) for s in found],
            "comment": [s.comment for s in found],
            "update_time": [s.time_millis for s in found],
        },
    )


def options(source: Source) -> pa.Table:
    """Show the options that are set, by key."""
    found = sorted(source.schemas.latest().options.items())
    return table(
        _OPTIONS, {"key": [key for key, _ in found], "value": [value for _, value in found]}
    )


def tags(source: Source) -> pa.Table:
    """Show the tags, by name; ``time_retained`` as an ISO duration, as in ``PT24H``."""
    found = list(TagStore(source.store).tags())
    return table(
        _TAGS,
        {
            "tag_name": [tag.name for tag in found],
            "snapshot_id": [tag.snapshot.id for tag in found],
            "schema_id": [tag.snapshot.schema_id for tag in found],
            "commit_time": [tag.snapshot.time_millis for tag in found],
            "record_count": [tag.snapshot.total_record_count for tag in found],
            "create_time": [tag.create_time for tag in found],
            "time_retained": [_duration(tag.time_retained) for tag in found],
        },
    )


def branches(source: Source) -> pa.Table:
    """Show the branches, by name."""
    found = BranchHistories(source.store, source.location.name).all()
    return table(
        _BRANCHES,
        {
            "branch_name": [branch.name for branch in found],
            "create_time": [branch.create_time for branch in found],
        },
    )


def consumers(source: Source) -> pa.Table:
    """Show the consumers, by id."""
    found = ConsumerStore(source.store).list()
    return table(
        _CONSUMERS,
        {
            "consumer_id": [consumer.name for consumer in found],
            "next_snapshot_id": [consumer.next_snapshot for consumer in found],
        },
    )


def aggregation_fields(source: Source) -> pa.Table:
    """Show the columns, with the values and keys of their ``fields.<name>.*`` options."""
    schema = source.schemas.latest()
    said: dict[str, list[tuple[str, str]]] = {field.name: [] for field in schema.fields}
    for key, value in schema.options.items():
        prefix, _, rest = key.partition(".")
        name, _, option = rest.rpartition(".")
        if prefix == "fields" and option and name in said:
            said[name].append((value, key))
    return table(
        _AGGREGATION_FIELDS,
        {
            "field_name": [field.name for field in schema.fields],
            "field_type": [str(field.type) for field in schema.fields],
            "function": [_listed(value for value, _ in of) for of in said.values()],
            "function_options": [_listed(key for _, key in of) for of in said.values()],
            "comment": [field.description for field in schema.fields],
        },
    )


class _Statistics(msgspec.Struct, rename="camel"):
    snapshot_id: Long
    schema_id: Long
    merged_record_count: Long | None = None
    merged_record_size: Long | None = None
    col_stats: dict[str, object] | None = None


_statistics_decoder = msgspec.json.Decoder(_Statistics)


def statistics(source: Source) -> pa.Table:
    """Show what ANALYZE of an engine that writes statistics found: one row, or none."""
    snapshot = source.snapshot
    found = []
    if snapshot is not None and snapshot.statistics is not None:
        path = paths.statistics(snapshot.statistics)
        try:
            found.append(decode(source.store.read(path), _statistics_decoder))
        except ValueError as error:
            raise CorruptFileError(
                f"statistics file {source.store.location(path)} is damaged: {error}; "
                "analyze the table again",
                path=path,
            ) from error
    return table(
        _STATISTICS,
        {
            "snapshot_id": [s.snapshot_id for s in found],
            "schema_id": [s.schema_id for s in found],
            "mergedRecordCount": [s.merged_record_count for s in found],
            "mergedRecordSize": [s.merged_record_size for s in found],
            "colstat": [_json(s.col_stats or {}) for s in found],
        },
    )


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _listed(values: Iterable[str]) -> str:
    return f"[{', '.join(values)}]"


def _duration(millis: int | None) -> str | None:
    """Write a duration as Java does: hours, minutes and seconds, those that are zero left out."""
    if millis is None:
        return None
    seconds, rest = divmod(millis, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{rest:03d}".rstrip("0") if rest else ""
    parts = [(hours, "H", ""), (minutes, "M", ""), (seconds, "S", fraction)]
    said = "".join(f"{n}{tail}{unit}" for n, unit, tail in parts if n or tail)
    return f"PT{said or '0S'}"
