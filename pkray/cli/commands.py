"""The commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from pkray.catalog import Catalog, connect
from pkray.cli import arguments, output
from pkray.cli.arguments import (
    WAREHOUSE,
    Columns,
    Json,
    Ray,
    SnapshotId,
    Storage,
    TableName,
    TagName,
    Timestamp,
    Warehouse,
)
from pkray.cli.row_files import FileFormat, RowFile
from pkray.format.snapshot import Snapshot
from pkray.table import Table

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


def create(
    table: TableName,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="'NAME TYPE'", help="A column; repeat it."),
    ] = None,
    like: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Take the columns of a Parquet file.")
    ] = None,
    primary_key: Annotated[
        list[str] | None,
        typer.Option("--primary-key", "-k", metavar="NAME", help="A key column; repeat it."),
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option("--partition", metavar="NAME", help="A partition column; repeat it."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="KEY=VALUE", help="A table option, such as bucket."),
    ] = None,
    comment: Annotated[str | None, typer.Option(help="What the table is.")] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists")] = False,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Create a table."""
    if bool(column) == bool(like):
        raise typer.BadParameter("give the columns by --column, or by --like")
    schema: Any = arguments.columns(column or []) if column else pq.read_schema(like)
    with connected(warehouse, storage) as catalog:
        made = catalog.create_table(
            table,
            schema,
            arguments.names(primary_key) or [],
            arguments.names(partition) or [],
            arguments.pairs(option, "--option"),
            comment,
            if_not_exists=if_not_exists,
        )
        output.record(described(made), as_json)


def tables(
    database: Annotated[str | None, typer.Argument(help="Only this database's.")] = None,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """List the tables."""
    with connected(warehouse, storage) as catalog:
        output.table(
            pa.table({"table": pa.array(catalog.list_tables(database), pa.string())}), as_json
        )


def describe(
    table: TableName,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Show a table's columns, keys and options."""
    with connected(warehouse, storage) as catalog:
        output.record(described(catalog.load_table(table)), as_json)


def snapshots(
    table: TableName,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """List the snapshots, oldest first."""
    with connected(warehouse, storage) as catalog:
        output.table(catalog.load_table(table).snapshots(), as_json, _SNAPSHOT_COLUMNS)


def files(
    table: TableName,
    snapshot: SnapshotId = None,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """List the data files of a snapshot."""
    with connected(warehouse, storage) as catalog:
        output.table(catalog.load_table(table).files(snapshot), as_json, _FILE_COLUMNS)


def upsert(
    table: TableName,
    file: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Parquet, CSV or JSON lines; '-': stdin."),
    ],
    file_format: Annotated[
        FileFormat | None, typer.Option("--format", help="Default: by the file's extension.")
    ] = None,
    row_kinds: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="A column of the file that holds +I, -U, +U or -D."),
    ] = None,
    commit_user: Annotated[
        str | None,
        typer.Option(help="Names this job, so that --commit-identifier is committed once."),
    ] = None,
    commit_identifier: Annotated[
        int | None, typer.Option(help="Names this commit; a number that grows.", min=0)
    ] = None,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    ray: Ray = None,
    as_json: Json = False,
) -> None:
    """Insert rows or replace those of the same key, from files, in one commit."""
    rows = 0
    with connected(warehouse, storage, ray) as catalog:
        target = catalog.load_table(table)
        sources = [RowFile.open(path, file_format, target.schema, row_kinds) for path in file]
        with target.open_writer(commit_user) as writer:
            with output.progress("reading", [source.size for source in sources]) as advance:
                for source in sources:
                    for batch, done in source.batches():
                        writer.write(batch, row_kinds)
                        rows += batch.num_rows
                        advance(done)
            with output.waiting("committing", target.what_writers_wait_for):
                snapshot = writer.commit(commit_identifier)
    output.record({"rows": rows, **committed(snapshot)}, as_json)


def scan(
    table: TableName,
    columns: Columns = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--filter", "-f", metavar="SQL", help='Such as "amount > 10 AND id IN (1, 2)".'
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", help="Rows at most.", min=0)] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print what would be read of the table instead.")
    ] = False,
    snapshot: SnapshotId = None,
    tag: TagName = None,
    timestamp: Timestamp = None,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Print the committed rows."""
    with connected(warehouse, storage) as catalog:
        source = catalog.load_table(table).view(*arguments.moment(snapshot, tag, timestamp))
        wanted = arguments.names(columns)
        if explain:
            report = source.explain(wanted, where)
            output.text(str(report), report.to_dict(), as_json)
            return
        batches = source.batches(wanted, where)
        schema = pa.schema([source.schema.field(c).arrow for c in wanted or source.schema.names])
        output.rows(_first(batches, limit), schema, as_json)


def lookup(
    table: TableName,
    key: Annotated[
        list[str],
        typer.Option("--key", "-k", metavar="KEY", help="id=1, or '{\"id\": 1}'; repeat it."),
    ],
    prefix: Annotated[
        bool, typer.Option(help="Keys are the first columns of keys: print all that begin so.")
    ] = False,
    columns: Columns = None,
    visibility: Annotated[
        str | None,
        typer.Option(
            help="latest, or committed, which is the default for an older moment.",
            metavar="latest|committed",
        ),
    ] = None,
    snapshot: SnapshotId = None,
    tag: TagName = None,
    timestamp: Timestamp = None,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    ray: Ray = None,
    as_json: Json = False,
) -> None:
    """Print the rows of some keys; keys that are not there are left out."""
    with connected(warehouse, storage, ray) as catalog:
        source = catalog.load_table(table)
        moment = arguments.moment(snapshot, tag, timestamp)
        is_past = any(said is not None for said in moment)
        schema = source.view(*moment).schema if is_past else source.schema
        look = source.lookup_prefix if prefix else source.lookup
        found = look(
            arguments.keys(key, schema, are_prefixes=prefix),
            columns=arguments.names(columns),
            visibility=visibility or ("committed" if is_past else "latest"),  # type: ignore[arg-type] # checked there
            snapshot_id=moment[0],
            tag=moment[1],
            timestamp=moment[2],
        )
        output.table(found, as_json)


def connected(warehouse: str, storage: list[str] | None, ray: str | None = None) -> Catalog:
    options: dict[str, Any] = dict(arguments.pairs(storage, "--storage"))
    if ray is None:
        return connect(warehouse, **options)
    return connect(warehouse, "ray", runtime_options={"address": ray}, **options)


def _first(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches if left is None or left > 0 else ():
        if left is None:
            yield batch
            continue
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return


def described(table: Table) -> dict[str, Any]:
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
    if snapshot is None:
        return {"snapshot": None}
    return {
        "snapshot": snapshot.id,
        "commit_kind": snapshot.commit_kind,
        "commit_user": snapshot.commit_user,
        "commit_identifier": snapshot.commit_identifier,
        "total_record_count": snapshot.total_record_count,
    }
