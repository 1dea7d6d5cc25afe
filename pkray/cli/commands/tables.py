"""The commands that make, list, show, rename and drop tables, and ``pkray database …``."""

from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from pkray import constants
from pkray.api.catalog import Catalog
from pkray.cli import arguments, completion, output
from pkray.cli.arguments import IfExists, IfNotExists, Json, TableName
from pkray.cli.summaries import described
from pkray.cli.warehouse import on_service, on_warehouse
from pkray.errors import InputError

database_app = typer.Typer(name="database", help="Make and drop databases.", no_args_is_help=True)

Database = Annotated[
    str,
    typer.Argument(
        metavar="DATABASE", help="The database's name.", autocompletion=completion.databases
    ),
]


@on_warehouse
def create(
    catalog: Catalog,
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
        typer.Option(
            "--option",
            "-o",
            metavar="KEY=VALUE",
            help="A table option, such as bucket.",
            autocompletion=completion.options,
        ),
    ] = None,
    comment: Annotated[str | None, typer.Option(help="What the table is.")] = None,
    if_not_exists: IfNotExists = False,
    as_json: Json = False,
) -> None:
    """Create a table."""
    if bool(column) == bool(like):
        raise typer.BadParameter("give the columns by --column, or by --like")
    schema: Any = arguments.columns(column or []) if like is None else _columns_of(like)
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


@on_warehouse
def tables(
    catalog: Catalog,
    database: Annotated[str | None, typer.Argument(help="Only this database's.")] = None,
    as_json: Json = False,
) -> None:
    """List the tables."""
    names = constants.texts(catalog.list_tables(database))
    output.table(pa.table({"table": names}), as_json)


@on_warehouse
def describe(catalog: Catalog, table: TableName, as_json: Json = False) -> None:
    """Show a table's columns, keys and options."""
    output.record(described(catalog.load_table(table)), as_json)


@on_warehouse
def rename(
    catalog: Catalog,
    table: TableName,
    new_name: Annotated[str, typer.Argument(metavar="NAME", help="database.table")],
    as_json: Json = False,
) -> None:
    """Give a table another name, on a disk; end its writers first."""
    catalog.rename_table(table, new_name)
    output.record({"table": new_name}, as_json)


@on_service
def drop(
    catalog: Catalog, table: TableName, if_exists: IfExists = False, as_json: Json = False
) -> None:
    """Delete a table and its files, for good."""
    catalog.drop_table(table, if_exists=if_exists)
    output.record({"dropped": table}, as_json)


@database_app.command("create")
@on_warehouse
def create_database(
    catalog: Catalog, database: Database, if_not_exists: IfNotExists = False, as_json: Json = False
) -> None:
    """Make an empty database; creating a table makes its database, too."""
    catalog.create_database(database, if_not_exists=if_not_exists)
    output.record({"database": database}, as_json)


@database_app.command("drop")
@on_service
def drop_database(
    catalog: Catalog,
    database: Database,
    if_exists: IfExists = False,
    cascade: Annotated[bool, typer.Option("--cascade", help="And all of its tables.")] = False,
    as_json: Json = False,
) -> None:
    """Delete a database, for good."""
    catalog.drop_database(database, if_exists=if_exists, cascade=cascade)
    output.record({"dropped": database}, as_json)


@database_app.command("list")
@on_warehouse
def list_databases(catalog: Catalog, as_json: Json = False) -> None:
    """List the databases."""
    names = constants.texts(catalog.list_databases())
    output.table(pa.table({"database": names}), as_json)


def _columns_of(file: Path) -> pa.Schema:
    try:
        return pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"--like takes a Parquet file, and {str(file)!r} is none that can be read: {error}",
            path=str(file),
        ) from None
