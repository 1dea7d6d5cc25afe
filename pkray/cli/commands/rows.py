"""The commands that write and read rows."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from pkray.api.catalog import Catalog
from pkray.cdc.avro.schemas import AvroSchemas
from pkray.cdc.bad_records import open_errors
from pkray.cdc.decoder import ChangeFormat
from pkray.cdc.kinds import with_row_kinds
from pkray.cdc.readings import Handling
from pkray.cdc.row_changes import ROW_KIND
from pkray.cdc.sources import EventFile
from pkray.cdc.upserts import Upsert, event_file
from pkray.cli import arguments, output
from pkray.cli.row_files import FileFormat, RowFile
from pkray.cli.summaries import committed
from pkray.cli.warehouse import on_service, on_warehouse
from pkray.format.snapshot import Snapshot
from pkray.scan.moment import Moment
from pkray.scan.split import arrow_schema
from pkray.service.client.writer import TableWriter
from pkray.table.system_table import SystemTable
from pkray.table.table import Table

CommitUser = Annotated[
    str | None, typer.Option(help="Names this job, so that --commit-identifier is committed once.")
]
CommitIdentifier = Annotated[
    int | None, typer.Option(help="Names this commit; a number that grows.", min=0)
]
_ID_OF_SCHEMA = re.compile("([0-9]+)=(.+)")
Keys = Annotated[
    list[str], typer.Option("--key", "-k", metavar="KEY", help="id=1, or '{\"id\": 1}'; repeat it.")
]


@on_service
def upsert(
    catalog: Catalog,
    table: arguments.TableName,
    file: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Parquet, CSV, JSON lines or changes; '-': stdin."),
    ],
    file_format: Annotated[
        FileFormat | None, typer.Option("--format", help="Default: by the file's extension.")
    ] = None,
    row_kinds: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="A column of the file that holds +I, -U, +U, -D, or I, U, D."
        ),
    ] = None,
    missing: Annotated[
        str, typer.Option(metavar="error|null", help="What to do where a file lacks a column.")
    ] = "error",
    merge_schema: Annotated[
        bool, typer.Option("--merge-schema", help="Add the files' new columns to the table.")
    ] = False,
    metadata: arguments.Metadata = None,
    decimals: Annotated[
        str | None,
        typer.Option(
            "--decimal-handling-mode",
            metavar="precise|double|string",
            help="Changes without a schema: how the connector writes decimals.",
        ),
    ] = None,
    times: Annotated[
        str | None,
        typer.Option(
            "--time-precision-mode",
            metavar="adaptive|connect|…",
            help="Changes without a schema: what the connector's numbers of times are.",
        ),
    ] = None,
    binaries: Annotated[
        str | None,
        typer.Option(
            "--binary-handling-mode",
            metavar="base64|base64-url-safe|hex",
            help="Changes: how the connector writes bytes.",
        ),
    ] = None,
    avro_schema: arguments.AvroSchema = None,
    errors: arguments.ErrorsTable = None,
    commit_user: CommitUser = None,
    commit_identifier: CommitIdentifier = None,
    as_json: arguments.Json = False,
) -> None:
    """Insert rows or replace those of the same key, from files, in one commit."""
    rows = 0
    target = catalog.load_table(table)
    if file_format is not None and file_format.is_of_changes:
        if row_kinds is not None:
            raise typer.BadParameter("--row-kinds is for files of rows: changes say their kinds")
        change_format = ChangeFormat(file_format.value)
        upsert = Upsert(
            target,
            change_format,
            metadata_of(metadata),
            Handling(decimals, times, binaries),
            "add" if merge_schema else "refuse",
            missing,  # type: ignore[arg-type] # checked there
            commit_user,
            commit_identifier,
            errors_table(catalog, table, errors),
            AvroSchemas.given(avro_schema_files(avro_schema)),
        )
        _upsert_changes(upsert, [event_file(path, change_format) for path in file], as_json)
        return
    if metadata or decimals or times or binaries or avro_schema or errors:
        raise typer.BadParameter(
            "--metadata, --errors, --avro-schema and --…-mode are for changes: say --format "
            "debezium-json"
        )
    sources = [RowFile.open(path, file_format, target.schema, row_kinds) for path in file]
    with target.open_writer(
        commit_user,
        missing=missing,  # type: ignore[arg-type] # checked there
        merge_schema=merge_schema,
    ) as writer:
        with output.progress("reading", [source.size for source in sources]) as advance:
            for source in sources:
                for batch, done in source.batches():
                    if row_kinds is not None:
                        keep = row_kinds in target.schema.names
                        batch = with_row_kinds(batch, row_kinds, keep=keep)
                    writer.write(batch, None if row_kinds is None else ROW_KIND)
                    rows += batch.num_rows
                    advance(done)
        with output.waiting("committing", target.write_stall_reason):
            snapshot = writer.commit(commit_identifier)
    output.record({"rows": rows, **committed(snapshot)}, as_json)


@on_service
def delete(
    catalog: Catalog,
    table: arguments.TableName,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", "-k", metavar="KEY", help="id=1, or '{\"id\": 1}'; repeat it."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help='Or rows by a filter: "amount < 0".'),
    ] = None,
    commit_user: CommitUser = None,
    commit_identifier: CommitIdentifier = None,
    as_json: arguments.Json = False,
) -> None:
    """Delete rows in one commit: of keys, which may bring their sequence.field, or of a filter."""
    target = catalog.load_table(table)
    keys = arguments.keys(key, target.schema, as_first=True) if key else None
    with output.waiting("deleting", target.write_stall_reason):
        snapshot = target.delete(
            keys, where=where, commit_user=commit_user, commit_identifier=commit_identifier
        )
    counted = {} if keys is None else {"keys": keys.num_rows}
    output.record({**counted, **committed(snapshot)}, as_json)


@on_warehouse
def scan(
    catalog: Catalog,
    table: arguments.TableName,
    columns: arguments.Columns = None,
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
    snapshot: arguments.SnapshotId = None,
    tag: arguments.TagName = None,
    timestamp: arguments.Timestamp = None,
    as_json: arguments.Json = False,
) -> None:
    """Print the committed rows, of a system table such as 'shop.orders$files' too."""
    source = catalog.load_table(table)
    moment = arguments.moment(snapshot, tag, timestamp)
    if explain:
        report = source.at(**moment.named).explain(arguments.names(columns), where)
        output.text(str(report), report.to_dict(), as_json)
        return
    rows, schema = _rows(source, arguments.names(columns), where, moment)
    output.rows(_first(rows, limit), schema, as_json)


@on_service
def lookup(
    catalog: Catalog,
    table: arguments.TableName,
    key: Keys,
    prefix: Annotated[
        bool, typer.Option(help="Keys are the first columns of keys: print all that begin so.")
    ] = False,
    columns: arguments.Columns = None,
    visibility: Annotated[
        str | None,
        typer.Option(
            help="latest, or committed, which is the default for an older snapshot.",
            metavar="latest|committed",
        ),
    ] = None,
    snapshot: arguments.SnapshotId = None,
    tag: arguments.TagName = None,
    timestamp: arguments.Timestamp = None,
    as_json: arguments.Json = False,
) -> None:
    """Print the rows of some keys; keys that are not there are left out."""
    source = catalog.load_table(table)
    moment = arguments.moment(snapshot, tag, timestamp)
    schema = source.schema if moment.is_latest else source.at(**moment.named).schema
    look = source.lookup_prefix if prefix else source.lookup
    found = look(
        arguments.keys(key, schema, as_first=prefix),
        columns=arguments.names(columns),
        visibility=visibility or ("latest" if moment.is_latest else "committed"),  # type: ignore[arg-type] # checked there
        **moment.named,
    )
    output.table(found, as_json)


def _upsert_changes(upsert: Upsert, files: list[EventFile], as_json: bool) -> None:
    def commit(writer: TableWriter, identifier: int | None) -> Snapshot | None:
        with output.waiting("committing", upsert.table.write_stall_reason):
            return writer.commit(identifier)

    with output.progress("reading", [each.size for each in files]) as advance:
        done = upsert.run(files, advance, commit)
    bad = {} if upsert.errors is None else {"bad": done.bad}
    output.record({"rows": done.rows, **bad, **committed(done.snapshot)}, as_json)


def metadata_of(said: list[str] | None) -> dict[str, str]:
    """Read ``--metadata``."""
    pairs = [each.partition("=") for each in said or ()]
    for column, _, member in pairs:
        if not (column and member):
            raise typer.BadParameter("--metadata is COLUMN=MEMBER, such as lsn=source.lsn")
    return {column: member for column, _, member in pairs}


def errors_table(catalog: Catalog, table: str, said: str | None) -> Table | None:
    """Open the table of ``--errors``."""
    if said is None:
        return None
    return open_errors(catalog, f"{table}{said}" if said.startswith("$") else said)


def avro_schema_files(said: list[str] | None) -> str | dict[int, str] | None:
    """Read ``--avro-schema``."""
    if not said:
        return None
    if len(said) == 1 and not _ID_OF_SCHEMA.match(said[0]):
        return said[0]
    found = {}
    for each in said:
        if not (match := _ID_OF_SCHEMA.match(each)):
            raise typer.BadParameter("--avro-schema of several is ID=FILE, such as 7=a.avsc")
        found[int(match[1])] = match[2]
    return found


def _rows(
    source: Table | SystemTable, columns: list[str] | None, where: str | None, moment: Moment
) -> tuple[Iterator[pa.RecordBatch], pa.Schema]:
    if isinstance(source, SystemTable):
        rows = source.to_batches(columns, where, **moment.named)
        return rows, rows.schema
    view = source.at(**moment.named)
    return view.to_batches(columns, where), arrow_schema(view.schema, columns)


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
