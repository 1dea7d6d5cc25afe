"""One table, as the console shows it."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from pkray.api.catalog import Catalog
from pkray.clock import now_millis
from pkray.errors import InputError, PkrayError, SnapshotNotFoundError, UnsupportedError
from pkray.format.partition_text import value_text as value_text
from pkray.inspection.cells import MOST_ROWS, columns_of, first_rows, records_of, rows_of
from pkray.lsm.compaction.under_way import under_way
from pkray.metrics.collection import Distribution, Value
from pkray.metrics.metric import Metric
from pkray.metrics.names import (
    TABLE_COMMIT_SECONDS,
    TABLE_WRITE_STALL_SECONDS_TOTAL,
    TABLE_WRITERS_WAITING,
)
from pkray.schema.table_schema import TableSchema
from pkray.system.contents import partitions_shown
from pkray.table.levels import levels_of
from pkray.table.table import Table

_SNAPSHOTS = 200
"""The newest, which a time line shows."""
_BUCKETS = 200
"""Buckets whose levels are drawn."""
_BRANCHES = 20
"""Branches whose snapshots are read: each costs requests."""
_SCHEMAS = 50
_LOOKED_THROUGH = 50
"""Snapshots in which the newest changes are sought: each costs requests."""


def table(catalog: Catalog, name: str) -> dict[str, Any]:
    """Describe a table: columns, options, snapshots with tags, buckets with their levels, schemas.

    Raises:
        TableNotFoundError: there is none.
    """
    found, time = catalog.load_table(name), now_millis()
    snapshots = found.snapshots()
    newest = snapshots.slice(max(snapshots.num_rows - _SNAPSHOTS, 0))
    return {
        "name": found.name,
        "time": time,
        "comment": found.comment,
        "primary_keys": list(found.primary_keys),
        "partition_keys": list(found.partition_keys),
        "columns": _columns(found.schema),
        "options": found.options,
        "snapshots": _snapshots(newest),
        "snapshot_count": snapshots.num_rows,
        "tags": records_of(found.system("tags")),
        "branches": _branches(found, snapshots),
        "consumers": records_of(found.system("consumers")),
        "buckets": _buckets(found.files()),
        "schemas": _schemas(found.system("schemas")),
        "partitions": records_of(found.system("partitions"))[:_BUCKETS],
    }


def load(catalog: Catalog, name: str) -> dict[str, Any]:
    """Say what processes have counted of a table since they began: ``commits``, the seconds that
    these took, the seconds that writers waited for compactions, and how many buckets are waited for
    now; and list the compactions that they run now.

    Raises:
        TableNotFoundError: there is none.
    """
    found, collected = catalog.load_table(name), catalog.metrics().collected

    def of_table(metric: Metric) -> list[Value]:
        series = collected.get(metric.name, {})
        return [value for (table, *_), value in series.items() if table == found.name]

    commits = [each for each in of_table(TABLE_COMMIT_SECONDS) if isinstance(each, Distribution)]
    return {
        "time": now_millis(),
        "commits": sum(sum(each.counts) for each in commits),
        "commit_seconds": sum(each.total for each in commits),
        "stall_seconds": sum(map(_number, of_table(TABLE_WRITE_STALL_SECONDS_TOTAL))),
        "writers_waiting": sum(map(_number, of_table(TABLE_WRITERS_WAITING))),
        "compactions": _compacting(catalog, found),
    }


def _compacting(catalog: Catalog, found: Table) -> list[dict[str, Any]]:
    """List the compactions of a table that run in this process, or in those that serve it."""
    running = under_way(found._store.url)
    with suppress(UnsupportedError):  # this process serves the tables itself
        running += catalog.service()._compactions(found)
    shown = partitions_shown([each.partition for each in running], found.schema)
    return [
        {
            "partition": partition,
            "bucket": each.bucket,
            "levels": list(each.levels),
            "output_level": each.output_level,
            "files": each.files,
            "bytes": each.bytes,
            "since": each.since,
        }
        for partition, each in zip(shown, running, strict=True)
    ]


def _number(value: Value) -> float:
    assert not isinstance(value, Distribution)
    return value


def rows(catalog: Catalog, name: str, snapshot: int | None, count: int) -> dict[str, Any]:
    """Read the first rows of a table at a snapshot.

    Raises:
        TableNotFoundError, SnapshotNotFoundError: there is no such table or snapshot.
    """
    view = catalog.load_table(name).at(snapshot)
    kept = first_rows(iter(view.to_batches()), count)
    schema = view.schema.arrow_schema
    found = pa.Table.from_batches(kept, schema)
    at = None if view.snapshot is None else view.snapshot.id
    return {"snapshot": at, "columns": columns_of(schema), "rows": rows_of(found)}


def changes(catalog: Catalog, name: str, count: int) -> dict[str, Any]:
    """Read the newest changes, the newest snapshot first.

    Raises:
        TableNotFoundError: there is no such table.
    """
    found = catalog.load_table(name)
    newest, left = found.latest_snapshot(), max(1, min(count, MOST_ROWS))
    kept: list[pa.RecordBatch] = []
    last = newest.id if newest is not None else 0
    for number in range(last, max(last - _LOOKED_THROUGH, 0), -1):
        try:
            batches = found.changelog_batches(number, number)
            kept += first_rows(batches, left - sum(each.num_rows for each in kept))
        except SnapshotNotFoundError:  # older ones have expired
            break
        if sum(each.num_rows for each in kept) >= left:
            break
    made = pa.Table.from_batches(kept) if kept else pa.table({})
    return {"columns": columns_of(made.schema), "rows": rows_of(made)}


def difference(catalog: Catalog, name: str, start: int, end: int, count: int) -> dict[str, Any]:
    """Read the first rows that are other ones at a snapshot than at an older one.

    Raises:
        TableNotFoundError, SnapshotNotFoundError: there is no such table or snapshot.
        OptionError: the second snapshot is the older one.
    """
    between = catalog.load_table(name)._reads.changes().between
    reader = between(start, end, None, None, "diff", None, None)
    kept = first_rows(iter(reader), count)
    made = pa.Table.from_batches(kept, reader.schema)
    return {"columns": columns_of(made.schema), "rows": rows_of(made)}


def compactions(catalog: Catalog, name: str) -> dict[str, Any]:
    """List what compaction did, the newest first.

    Raises:
        TableNotFoundError: there is no such table.
    """
    found = catalog.load_table(name).system("compactions")
    newest = found.slice(max(found.num_rows - MOST_ROWS, 0))
    return {"compactions": records_of(newest)[::-1]}


def expiry(catalog: Catalog, name: str) -> dict[str, Any]:
    """Count what an expiry would remove now, and name the consumers that hold more of it.

    Raises:
        TableNotFoundError: there is no such table.
    """
    return msgspec.structs.asdict(catalog.load_table(name).expire_snapshots(dry_run=True))


def lookup(catalog: Catalog, name: str, key: Mapping[str, str]) -> dict[str, Any]:
    """Find the row of a key, as it is now.

    Args:
        key: values as text, by column.

    Raises:
        InputError: a column of the key is not given, or has another type.
    """
    found = catalog.load_table(name)
    missing = [each for each in found.primary_keys if each not in key]
    if missing:
        raise InputError(f"a value of {', '.join(missing)} is missing: give the whole key")
    values = {each: [_value(found.schema, each, key[each])] for each in found.primary_keys}
    answer = found.lookup(pa.table(values))
    return {"columns": columns_of(answer.schema), "rows": rows_of(answer)}


def _value(schema: TableSchema, name: str, text: str) -> Any:
    """Read a value of the key as its column has it."""
    kind = schema.arrow_schema.field(name).type
    try:
        return pa.scalar(text, pa.string()).cast(kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(
            f"{text!r} is no {kind} for the column {name!r}: write it as SQL would",
            column=name,
            value=text,
        ) from None


def _snapshots(found: pa.Table) -> list[dict[str, Any]]:
    return [
        {
            "id": each["snapshot_id"],
            "kind": each["commit_kind"],
            "time": each["commit_time"],
            "rows": each["total_record_count"],
            "added": each["delta_record_count"],
            "user": each["commit_user"],
        }
        for each in records_of(found)
    ]


def _branches(found: Table, snapshots: pa.Table) -> list[dict[str, Any]]:
    """List branches with the snapshots that are theirs alone, and of the first of them the one it
    was put on: ``began``."""
    listed = records_of(found.system("branches"))
    return [
        {**each, "began": None, "snapshots": [], **_history(found, each["branch_name"], snapshots)}
        for each in listed[:_BRANCHES]
    ] + [{**each, "began": None, "snapshots": []} for each in listed[_BRANCHES:]]


def _history(found: Table, name: str, snapshots: pa.Table) -> dict[str, Any]:
    """Tell a branch's own snapshots from those that it has of the table."""
    try:
        branch = found.branch(name)
        own, tagged = branch.snapshots(), branch.system("tags")
    except PkrayError as error:  # it is damaged, or being deleted
        return {"error": str(error)}
    of_table = {*_moments(snapshots), *_moments(found.system("tags"))}
    shared = sorted(of_table.intersection((*_moments(own), *_moments(tagged))))
    began = shared[-1] if shared else None
    least = 0 if began is None else began[0]
    later = own.filter(pc.greater(own["snapshot_id"], least))
    return {
        "began": began and {"id": began[0], "time": str(began[1])},
        "snapshots": _snapshots(later.slice(max(later.num_rows - _SNAPSHOTS, 0))),
    }


def _moments(found: pa.Table) -> list[tuple[int, str]]:
    """Tell snapshots apart, of which two histories may have the same number."""
    times = found["commit_time"].cast(pa.string())
    return list(zip(found["snapshot_id"].to_pylist(), times.to_pylist(), strict=True))


def _schemas(found: pa.Table) -> list[dict[str, Any]]:
    """List the newest schemas, with their columns as people write them."""
    newest = found.slice(max(found.num_rows - _SCHEMAS, 0))
    columns = map(msgspec.json.decode, newest.column("fields").to_pylist())
    return [
        each | {"fields": ", ".join(f"{one['name']} {_type_text(one['type'])}" for one in fields)}
        for each, fields in zip(
            records_of(newest.select(["schema_id", "update_time"])), columns, strict=True
        )
    ]


def _type_text(kind: Any) -> str:
    """Write a type of a schema's file; of nested ones the outermost."""
    return kind if isinstance(kind, str) else str(kind.get("type"))


def _columns(schema: TableSchema) -> list[dict[str, Any]]:
    return [
        {"name": each.name, "type": str(each.type), "comment": each.description}
        for each in schema.fields
    ]


def _buckets(files: pa.Table) -> list[dict[str, Any]]:
    """Give the levels of each bucket."""
    return [
        {"partition": partition, "bucket": bucket, "levels": [asdict(each) for each in levels]}
        for (partition, bucket), levels in list(levels_of(files).items())[:_BUCKETS]
    ]
