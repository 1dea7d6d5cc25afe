"""The commands ``pkray alter …``."""

from collections.abc import Sequence
from typing import Annotated

import typer

from pkray.api.catalog import Catalog
from pkray.cli import arguments, completion, output
from pkray.cli.arguments import Json, TableName
from pkray.cli.summaries import described
from pkray.cli.warehouse import on_warehouse
from pkray.schema import changes as schema_changes

app = typer.Typer(
    name="alter", help="Change a table's columns, options and comments.", no_args_is_help=True
)

Column = Annotated[
    str, typer.Argument(metavar="COLUMN", help="A column, or a field of a ROW: address.city.")
]
First = Annotated[bool, typer.Option("--first", help="Put it first.")]
After = Annotated[str | None, typer.Option(metavar="COLUMN", help="Put it after this column.")]
Comment = Annotated[str | None, typer.Option(help="What it is.")]
Text = Annotated[str | None, typer.Argument(metavar="[TEXT]", help="None: remove the comment.")]


@app.command("add-column")
@on_warehouse
def add_column(
    catalog: Catalog,
    table: TableName,
    column: Column,
    type: Annotated[str, typer.Argument(metavar="TYPE", help="Such as 'DECIMAL(10, 2)'.")],
    comment: Comment = None,
    first: First = False,
    after: After = None,
    as_json: Json = False,
) -> None:
    """Add a nullable column."""
    change = schema_changes.AddColumn(column, type, comment, first, after)
    _apply(catalog, table, [change], as_json)


@app.command("drop-column")
@on_warehouse
def drop_column(catalog: Catalog, table: TableName, column: Column, as_json: Json = False) -> None:
    """Drop a column."""
    _apply(catalog, table, [schema_changes.DropColumn(column)], as_json)


@app.command("rename-column")
@on_warehouse
def rename_column(
    catalog: Catalog,
    table: TableName,
    column: Column,
    new_name: Annotated[str, typer.Argument(metavar="NAME")],
    as_json: Json = False,
) -> None:
    """Rename a column; options that name it follow."""
    _apply(catalog, table, [schema_changes.RenameColumn(column, new_name)], as_json)


@app.command("change-type")
@on_warehouse
def change_type(
    catalog: Catalog,
    table: TableName,
    column: Column,
    type: Annotated[str, typer.Argument(metavar="TYPE", help="A wider one, such as BIGINT.")],
    as_json: Json = False,
) -> None:
    """Give a column a wider type."""
    _apply(catalog, table, [schema_changes.ChangeType(column, type)], as_json)


@app.command("drop-not-null")
@on_warehouse
def drop_not_null(
    catalog: Catalog, table: TableName, column: Column, as_json: Json = False
) -> None:
    """Let a column hold nulls."""
    _apply(catalog, table, [schema_changes.ChangeNullability(column)], as_json)


@app.command("move-column")
@on_warehouse
def move_column(
    catalog: Catalog,
    table: TableName,
    column: Column,
    first: First = False,
    after: After = None,
    as_json: Json = False,
) -> None:
    """Move a column."""
    _apply(catalog, table, [schema_changes.MoveColumn(column, first, after)], as_json)


@app.command("comment-column")
@on_warehouse
def comment_column(
    catalog: Catalog, table: TableName, column: Column, text: Text = None, as_json: Json = False
) -> None:
    """Describe a column."""
    _apply(catalog, table, [schema_changes.CommentColumn(column, text)], as_json)


@app.command("comment")
@on_warehouse
def comment_table(
    catalog: Catalog, table: TableName, text: Text = None, as_json: Json = False
) -> None:
    """Describe the table."""
    _apply(catalog, table, [schema_changes.CommentTable(text)], as_json)


@app.command("set")
@on_warehouse
def set_options(
    catalog: Catalog,
    table: TableName,
    option: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE…", autocompletion=completion.options)
    ],
    as_json: Json = False,
) -> None:
    """Set table options."""
    change = schema_changes.SetOptions(arguments.pairs(option, "KEY=VALUE"))
    _apply(catalog, table, [change], as_json)


@app.command("unset")
@on_warehouse
def unset_options(
    catalog: Catalog,
    table: TableName,
    key: Annotated[list[str], typer.Argument(metavar="KEY…")],
    as_json: Json = False,
) -> None:
    """Give table options their defaults."""
    _apply(catalog, table, [schema_changes.UnsetOptions(key)], as_json)


def _apply(
    catalog: Catalog, table: str, changes: Sequence[schema_changes.SchemaChange], as_json: bool
) -> None:
    altered = catalog.load_table(table)
    altered.alter.apply(changes)
    output.record(described(altered), as_json)
