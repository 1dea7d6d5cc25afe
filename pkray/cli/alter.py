"""The commands ``pkray alter …``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from pkray.catalog import connect
from pkray.cli import arguments, output
from pkray.cli.arguments import WAREHOUSE, Json, Storage, TableName, Warehouse
from pkray.cli.commands import described
from pkray.schema_changes import (
    AddColumn,
    ChangeNullability,
    ChangeType,
    CommentColumn,
    CommentTable,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SchemaChange,
    SetOptions,
    UnsetOptions,
)

app = typer.Typer(
    name="alter", help="Change a table's columns, options and comments.", no_args_is_help=True
)

Column = Annotated[
    str, typer.Argument(metavar="COLUMN", help="A column, or a field of a ROW: address.city.")
]
First = Annotated[bool, typer.Option("--first", help="Put it first.")]
After = Annotated[str | None, typer.Option(metavar="COLUMN", help="Put it behind this column.")]
Comment = Annotated[str | None, typer.Option(help="What it is.")]
Text = Annotated[str | None, typer.Argument(metavar="[TEXT]", help="None: remove the comment.")]


@app.command("add-column")
def add_column(
    table: TableName,
    column: Column,
    type: Annotated[str, typer.Argument(metavar="TYPE", help="Such as 'DECIMAL(10, 2)'.")],
    comment: Comment = None,
    first: First = False,
    after: After = None,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Add a nullable column."""
    change = AddColumn(column, type, comment, first, after)
    _apply(table, [change], warehouse, storage, as_json)


@app.command("drop-column")
def drop_column(
    table: TableName,
    column: Column,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Drop a column."""
    _apply(table, [DropColumn(column)], warehouse, storage, as_json)


@app.command("rename-column")
def rename_column(
    table: TableName,
    column: Column,
    new_name: Annotated[str, typer.Argument(metavar="NAME")],
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Rename a column; options that name it follow."""
    _apply(table, [RenameColumn(column, new_name)], warehouse, storage, as_json)


@app.command("change-type")
def change_type(
    table: TableName,
    column: Column,
    type: Annotated[str, typer.Argument(metavar="TYPE", help="A wider one, such as BIGINT.")],
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Give a column a wider type."""
    _apply(table, [ChangeType(column, type)], warehouse, storage, as_json)


@app.command("drop-not-null")
def drop_not_null(
    table: TableName,
    column: Column,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Let a column hold nulls."""
    _apply(table, [ChangeNullability(column)], warehouse, storage, as_json)


@app.command("move-column")
def move_column(
    table: TableName,
    column: Column,
    first: First = False,
    after: After = None,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Move a column."""
    _apply(table, [MoveColumn(column, first, after)], warehouse, storage, as_json)


@app.command("comment-column")
def comment_column(
    table: TableName,
    column: Column,
    text: Text = None,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Describe a column."""
    _apply(table, [CommentColumn(column, text)], warehouse, storage, as_json)


@app.command("comment")
def comment_table(
    table: TableName,
    text: Text = None,
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Describe the table."""
    _apply(table, [CommentTable(text)], warehouse, storage, as_json)


@app.command("set")
def set_options(
    table: TableName,
    option: Annotated[list[str], typer.Argument(metavar="KEY=VALUE…")],
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Set table options."""
    change = SetOptions(arguments.pairs(option, "KEY=VALUE"))
    _apply(table, [change], warehouse, storage, as_json)


@app.command("unset")
def unset_options(
    table: TableName,
    key: Annotated[list[str], typer.Argument(metavar="KEY…")],
    warehouse: Warehouse = WAREHOUSE,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Give table options their defaults."""
    _apply(table, [UnsetOptions(key)], warehouse, storage, as_json)


def _apply(
    table: str,
    changes: Sequence[SchemaChange],
    warehouse: str,
    storage: list[str] | None,
    as_json: bool,
) -> None:
    options: dict[str, Any] = dict(arguments.pairs(storage, "--storage"))
    with connect(warehouse, **options) as catalog:
        altered = catalog.load_table(table)
        altered.alter.apply(changes)
        output.record(described(altered), as_json)
