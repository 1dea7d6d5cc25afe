"""Snapshots, schemas, tags, branches and consumers: the system tables of a table's history.

Source: "System Tables" in Apache Paimon, for names and columns. Times are in UTC.
"""

import json
from collections.abc import Iterable
from operator import itemgetter

import msgspec
import pyarrow as pa

from pkray.errors import CorruptFileError
from pkray.expiration.branches import BranchHistories
from pkray.format import paths
from pkray.json_files import Long, decode
from pkray.metadata.consumers import ConsumerStore
from pkray.metadata.tags import TagStore
from pkray.system.source import MILLIS, Source, optional, required, table

_LONG, _TEXT = pa.int64(), pa.string()

_SNAPSHOTS = (
    required("snapshot_id", _LONG, "id"),
    required("schema_id", _LONG, "schema_id"),
    required("commit_user", _TEXT, "commit_user"),
    required("commit_identifier", _LONG, "commit_identifier"),
    required("commit_kind", _TEXT, "commit_kind"),
    required("commit_time", MILLIS, "time_millis"),
    required("base_manifest_list", _TEXT, "base_manifest_list"),
    required("delta_manifest_list", _TEXT, "delta_manifest_list"),
    optional("changelog_manifest_list", _TEXT, "changelog_manifest_list"),
    optional("total_record_count", _LONG, "total_record_count"),
    optional("delta_record_count", _LONG, "delta_record_count"),
    optional("changelog_record_count", _LONG, "changelog_record_count"),
    optional("watermark", _LONG, "watermark"),
)
_SCHEMAS = (
    required("schema_id", _LONG, "id"),
    required("fields", _TEXT, lambda schema: _json([f.to_json() for f in schema.fields])),
    required("partition_keys", _TEXT, lambda schema: _json(schema.partition_keys)),
    required("primary_keys", _TEXT, lambda schema: _json(schema.primary_keys)),
    required("options", _TEXT, lambda schema: _json(schema.options)),
    optional("comment", _TEXT, "comment"),
    required("update_time", MILLIS, "time_millis"),
)
_OPTIONS = (required("key", _TEXT, itemgetter(0)), required("value", _TEXT, itemgetter(1)))
_TAGS = (
    required("tag_name", _TEXT, "name"),
    required("snapshot_id", _LONG, "snapshot.id"),
    required("schema_id", _LONG, "snapshot.schema_id"),
    required("commit_time", MILLIS, "snapshot.time_millis"),
    optional("record_count", _LONG, "snapshot.total_record_count"),
    optional("create_time", MILLIS, "create_time"),
    optional("time_retained", _TEXT, lambda tag: _duration(tag.time_retained)),
)
_BRANCHES = (required("branch_name", _TEXT, "name"), required("create_time", MILLIS, "create_time"))
_CONSUMERS = (
    required("consumer_id", _TEXT, "name"),
    required("next_snapshot_id", _LONG, "next_snapshot"),
)
_AGGREGATION_FIELDS = (
    required("field_name", _TEXT, "name"),
    required("field_type", _TEXT, lambda field: str(field.type)),
    optional("function", _TEXT),
    optional("function_options", _TEXT),
    optional("comment", _TEXT, "description"),
)
_STATISTICS = (
    required("snapshot_id", _LONG, "snapshot_id"),
    required("schema_id", _LONG, "schema_id"),
    optional("mergedRecordCount", _LONG, "merged_record_count"),
    optional("mergedRecordSize", _LONG, "merged_record_size"),
    optional("colstat", _TEXT, lambda found: _json(found.col_stats or {})),
)


def snapshots(source: Source) -> pa.Table:
    """Show the snapshots, oldest first; counts are of physical rows."""
    return table(_SNAPSHOTS, list(source.snapshots.all()))


def schemas(source: Source) -> pa.Table:
    """Show the schemas, the first one first; columns, keys and options as JSON."""
    return table(_SCHEMAS, [source.schemas.read(number) for number in source.schemas.ids()])


def options(source: Source) -> pa.Table:
    """Show the options that are set, by key."""
    return table(_OPTIONS, sorted(source.schemas.latest().options.items()))


def tags(source: Source) -> pa.Table:
    """Show the tags, by name; ``time_retained`` as an ISO duration, as in ``PT24H``."""
    return table(_TAGS, list(TagStore(source.store).tags()))


def branches(source: Source) -> pa.Table:
    """Show the branches, by name."""
    return table(_BRANCHES, BranchHistories(source.store, source.location.name).all())


def consumers(source: Source) -> pa.Table:
    """Show the consumers, by id."""
    return table(_CONSUMERS, ConsumerStore(source.store).list())


def aggregation_fields(source: Source) -> pa.Table:
    """Show the columns, with the values and keys of their ``fields.<name>.*`` options."""
    schema = source.schemas.latest()
    said: dict[str, list[tuple[str, str]]] = {field.name: [] for field in schema.fields}
    for key, value in schema.options.items():
        prefix, _, rest = key.partition(".")
        name, _, option = rest.rpartition(".")
        if prefix == "fields" and option and name in said:
            said[name].append((value, key))
    functions = [_listed(value for value, _ in of) for of in said.values()]
    keys = [_listed(key for _, key in of) for of in said.values()]
    return table(_AGGREGATION_FIELDS, schema.fields, function=functions, function_options=keys)


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
    return table(_STATISTICS, found)


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
