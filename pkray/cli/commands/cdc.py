"""The commands ``pkray cdc …``: databases whose changes come to tables."""

from pathlib import Path
from typing import Annotated

import typer

from pkray.api.catalog import Catalog
from pkray.cdc.postgresql.source import postgres as postgres_source
from pkray.cli import output
from pkray.cli.arguments import ErrorsTable, Json, Metadata, TableName
from pkray.cli.commands.rows import errors_table, metadata_of
from pkray.cli.ending import until_ended
from pkray.cli.warehouse import on_service

cdc_app = typer.Typer(
    name="cdc", help="Databases whose changes come to tables.", no_args_is_help=True
)


@cdc_app.command("postgres")
@on_service
def postgres(
    catalog: Catalog,
    table: TableName,
    source: Annotated[
        str, typer.Option(metavar="SCHEMA.TABLE", help="The table there, such as public.people.")
    ],
    database: Annotated[str, typer.Option(help="Its database.")],
    host: Annotated[str, typer.Option(help="The server's name.")] = "localhost",
    port: Annotated[int, typer.Option(help="The server's port.", min=1, max=65_535)] = 5432,
    user: Annotated[str | None, typer.Option(help="Who asks; default: PGUSER.")] = None,
    password_file: Annotated[
        Path | None,
        typer.Option(help="A file whose first line is the password; default: PGPASSWORD."),
    ] = None,
    slot: Annotated[
        str | None, typer.Option(help="The replication slot; default: by the table's name.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when the table is as the source is now.")
    ] = False,
    metadata: Metadata = None,
    merge_schema: Annotated[
        bool, typer.Option("--merge-schema", help="Add the source's new columns to the table.")
    ] = False,
    errors: ErrorsTable = None,
    as_json: Json = False,
) -> None:
    """Bring a PostgreSQL table's rows, then its changes, until stopped; go on where it ended."""
    found = postgres_source(
        catalog.load_table(table),
        source,
        database=database,
        host=host,
        port=port,
        user=user,
        password_file=password_file,
        slot=slot,
        metadata=metadata_of(metadata),
        new_columns="add" if merge_schema else "refuse",
        errors=errors_table(catalog, table, errors),
    )
    with until_ended(), output.waiting(f"following {source}"):
        found.run(once=once)
    bad = {} if errors is None else {"bad": found.bad}
    output.record({"rows": found.rows, **bad}, as_json)
