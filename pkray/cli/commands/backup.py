"""The commands ``pkray backup …``: copies of a warehouse, kept in a store of their own."""

from typing import Annotated, Any

import typer

from pkray.api.catalog import Catalog
from pkray.cli import arguments, output
from pkray.cli.arguments import Json
from pkray.cli.warehouse import on_service, on_warehouse

backup_app = typer.Typer(
    name="backup", help="Copies of the warehouse, in a store of their own.", no_args_is_help=True
)

Store = Annotated[
    str, typer.Argument(metavar="STORE", help="Where backups are: a folder, or a store's URL.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The backup's name.")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--store-option",
        metavar="KEY=VALUE",
        help="An option of the store of backups; by default those of the warehouse.",
    ),
]
Tables = Annotated[
    list[str] | None,
    typer.Option(
        "--table", metavar="TABLE", help="This table, and queries that use no others; repeatable."
    ),
]


@backup_app.command("create")
@on_service
def create(
    catalog: Catalog,
    store: Store,
    name: Name,
    table: Tables = None,
    store_option: Options = None,
    as_json: Json = False,
) -> None:
    """Copy tables, views and queries as they are, beside writers; what is there is not copied."""
    with output.copying("copying") as progress:
        made = _opened(catalog, store, store_option).create(name, table or None, progress)
    output.record(made.to_dict(), as_json)


@backup_app.command("list")
@on_warehouse
def list_(
    catalog: Catalog, store: Store, store_option: Options = None, as_json: Json = False
) -> None:
    """List the backups, in the order in which they were made."""
    output.table(_opened(catalog, store, store_option).to_arrow(), as_json)


@backup_app.command("verify")
@on_warehouse
def verify(
    catalog: Catalog,
    store: Store,
    name: Name,
    quick: Annotated[
        bool, typer.Option("--quick", help="Look at names and sizes, and read no data.")
    ] = False,
    store_option: Options = None,
    as_json: Json = False,
) -> None:
    """Prove a backup without restoring it; exit with 1 where something is wrong."""
    with output.copying("reading") as progress:
        found = _opened(catalog, store, store_option).verify(name, quick=quick, progress=progress)
    if found.is_whole:
        output.record({"name": name, "whole": True}, as_json)
    else:
        output.table(found.to_arrow(), as_json)
        raise typer.Exit(1)


@backup_app.command("restore")
@on_service
def restore(
    catalog: Catalog,
    store: Store,
    name: Name,
    table: Tables = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Drop what lies where it is restored to.")
    ] = False,
    deliver: Annotated[
        bool, typer.Option("--deliver", help="Have queries tell the outside of failures again.")
    ] = False,
    store_option: Options = None,
    as_json: Json = False,
) -> None:
    """Bring a backup back into the warehouse, which may be another one; queries stand still."""
    with output.copying("copying") as progress:
        found = _opened(catalog, store, store_option).restore(
            name, table or None, replace=replace, deliver=deliver, progress=progress
        )
    output.record(found.to_dict(), as_json)


@backup_app.command("delete")
@on_warehouse
def delete(
    catalog: Catalog, store: Store, name: Name, store_option: Options = None, as_json: Json = False
) -> None:
    """Delete a backup, and the files that no other one has."""
    with output.waiting("deleting"):
        freed = _opened(catalog, store, store_option).delete(name)
    output.record({"name": name, "freed_bytes": freed}, as_json)


def _opened(catalog: Catalog, store: str, options: list[str] | None) -> Any:
    given = dict(arguments.pairs(options, "--store-option", secret=True))
    return catalog.backups(store, **given)
