"""The commands ``pkray query plan``, ``diff``, ``upgrade``, ``accept`` and ``rollback``."""

import json
import sys
from typing import Annotated, Any

import typer

from pkray.api.catalog import Catalog
from pkray.cli import output
from pkray.cli.arguments import Json
from pkray.cli.commands.query import Name, query_app
from pkray.cli.warehouse import on_service, on_warehouse

app = query_app
"""The commands of queries, with those of this module."""

New = Annotated[
    str,
    typer.Argument(
        metavar="PLAN", help="A file of a compiled plan, or SQL of a SELECT or an INSERT."
    ),
]


@query_app.command("plan")
@on_warehouse
def plan(catalog: Catalog, name: Name, as_json: Json = False) -> None:
    """Print the plan that a query runs; with --json as COMPILE PLAN writes it."""
    found = catalog.query(name).plan()
    if as_json:
        sys.stdout.write(json.dumps(found.to_dict()) + "\n")
    else:
        sys.stdout.write(f"{found}\n")


@query_app.command("diff")
@on_warehouse
def diff(catalog: Catalog, name: Name, new: New, as_json: Json = False) -> None:
    """Say what becomes of each operator with state if another plan takes over."""
    found = catalog.query(name).diff(_read(catalog, new))
    output.text(str(found), found.to_dict(), as_json)
    if found.refused:
        raise typer.Exit(1)


@query_app.command("upgrade")
@on_service
def upgrade(catalog: Catalog, name: Name, new: New, as_json: Json = False) -> None:
    """Let another plan take over a query, with the states of the operators that stay the same."""
    query, other = catalog.query(name), _read(catalog, new)
    with output.waiting("computing what the newer plan needs"):
        found = query.upgrade(other)
    said = {"upgraded": name, "state": found.state, **found.diff.to_dict()}
    output.text(f"{found.diff}\nupgraded {name}: accept it, or roll it back", said, as_json)


@query_app.command("accept")
@on_warehouse
def accept(catalog: Catalog, name: Name, as_json: Json = False) -> None:
    """Accept a query's upgrade: what rolling it back needs is let go."""
    catalog.query(name).accept()
    output.record({"accepted": name}, as_json)


@query_app.command("rollback")
@on_service
def rollback(catalog: Catalog, name: Name, as_json: Json = False) -> None:
    """Go back to a query's plan before its upgrade, or drop one that has not taken over."""
    with output.waiting("going back to the older plan"):
        catalog.query(name).rollback()
    output.record({"rolled_back": name}, as_json)


def _read(catalog: Catalog, new: str) -> Any:
    """Load a plan where the text names a file; else it is SQL, which has spaces."""
    return catalog.load_plan(new) if new.endswith(".json") or len(new.split()) == 1 else new
