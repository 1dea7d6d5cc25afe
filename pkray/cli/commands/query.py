"""The commands ``pkray query …``: what continuous queries there are, and what they do."""

import json
import sys
from typing import Annotated, Any

import pyarrow as pa
import typer

from pkray.api.catalog import Catalog
from pkray.cli import output
from pkray.cli.arguments import Json, SnapshotId
from pkray.cli.warehouse import on_service, on_warehouse
from pkray.errors import OptionError
from pkray.relational.continuous.queries.live_view import follow
from pkray.service.hosted import Hosting

query_app = typer.Typer(name="query", help="Continuous queries.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="QUERY", help="The query's name: its table's.")]
SavepointName = Annotated[str, typer.Argument(metavar="NAME", help="The savepoint's name.")]
Savepoint = Annotated[
    str | None, typer.Option("--savepoint", metavar="NAME", help="Go back to this one before.")
]
Follow = Annotated[
    bool, typer.Option("--follow", "--live", help="Show it on and on; end with Ctrl+C.")
]
Engine = Annotated[
    str, typer.Option("--engine", metavar="local|spark", help="What computes the bounded run.")
]
Result = Annotated[
    str | None,
    typer.Option("--table", metavar="TABLE", help="Which result; by default all are compared."),
]
Detach = Annotated[
    bool, typer.Option("--detach", help="Leave it running on the Ray cluster, and return.")
]


@query_app.command("list")
@on_warehouse
def list_queries(catalog: Catalog, as_json: Json = False) -> None:
    """List the queries of the warehouse."""
    found = [(query, query.status()) for query in catalog.queries()]
    rows = pa.table(
        {
            "query": pa.array([query.name for query, _ in found], pa.string()),
            "state": pa.array([status["state"] for _, status in found], pa.string()),
            "epoch": pa.array([status["epoch"] for _, status in found], pa.int64()),
            "workers": pa.array([status.get("workers", 0) for _, status in found], pa.int64()),
            "tables": pa.array([", ".join(query.tables) for query, _ in found], pa.string()),
            "failure": pa.array([status["failure"] for _, status in found], pa.string()),
        }
    )
    output.table(rows, as_json)


@query_app.command("status")
@on_warehouse
def status(catalog: Catalog, name: Name, follow: Follow = False, as_json: Json = False) -> None:
    """Say what a query does: state, epoch, sources, and what each operator did."""
    query = catalog.query(name)
    if follow and not as_json:
        query.show()
    else:
        output.record(query.status(), as_json)


@query_app.command("stop")
@on_service
def stop(catalog: Catalog, name: Name, as_json: Json = False) -> None:
    """End a query after the epoch that runs; its state and its place stay."""
    catalog.query(name).stop()
    output.record({"stopped": name}, as_json)


@query_app.command("resume")
@on_service
def resume(
    catalog: Catalog,
    name: Name,
    savepoint: Savepoint = None,
    detach: Detach = False,
    as_json: Json = False,
) -> None:
    """Let a query go on, and show it; Ctrl+C stops it."""
    if detach and not isinstance(catalog.runtime, Hosting):
        raise OptionError("--detach leaves a query running on a Ray cluster: name it with --ray")
    query = catalog.query(name).resume(savepoint)
    if detach:
        output.record({"resumed": name}, as_json)
    else:
        watch(query)


@query_app.command("verify")
@on_service
def verify(
    catalog: Catalog,
    name: Name,
    snapshot: SnapshotId = None,
    engine: Engine = "local",
    table: Result = None,
    as_json: Json = False,
) -> None:
    """Compare a result with the bounded run over the inputs that its snapshot names."""
    with output.waiting("running the query once"):
        report = catalog.query(name).verify(snapshot, engine, table)
    found = {
        "equal": report.equal,
        "missing": report.missing_rows,
        "extra": report.extra_rows,
        "snapshot": report.snapshot,
        "sources": dict(report.sources),
        "excluded": list(report.excluded),
    }
    output.record(found, as_json)
    if not report.equal:
        raise typer.Exit(1)


@query_app.command("rescale")
@on_service
def rescale(
    catalog: Catalog,
    name: Name,
    workers: Annotated[int, typer.Argument(help="How many workers go on with it.")],
    as_json: Json = False,
) -> None:
    """Let another number of workers go on with a query, after the epoch that runs."""
    catalog.query(name).rescale(workers)
    output.record({"rescaled": name, "workers": workers}, as_json)


@query_app.command("savepoint")
@on_service
def savepoint(
    catalog: Catalog, name: Name, savepoint: SavepointName, as_json: Json = False
) -> None:
    """Keep a query's state and results as they are now, under a name."""
    catalog.query(name).savepoint(savepoint)
    output.record({"savepoint": savepoint, "query": name}, as_json)


@query_app.command("savepoints")
@on_warehouse
def savepoints(catalog: Catalog, name: Name, as_json: Json = False) -> None:
    """List the savepoints of a query."""
    names = catalog.query(name).savepoints()
    output.table(pa.table({"savepoint": pa.array(names, pa.string())}), as_json)


@query_app.command("delete-savepoint")
@on_service
def delete_savepoint(
    catalog: Catalog, name: Name, savepoint: SavepointName, as_json: Json = False
) -> None:
    """Forget a savepoint: what it kept of results and sources may expire."""
    catalog.query(name).delete_savepoint(savepoint)
    output.record({"deleted": savepoint, "query": name}, as_json)


@query_app.command("drop")
@on_service
def drop(catalog: Catalog, name: Name, as_json: Json = False) -> None:
    """End a query and delete its state; its table stays."""
    catalog.query(name).drop()
    output.record({"dropped": name}, as_json)


def watch(query: Any) -> None:
    """Show what a query does until it ends; Ctrl+C stops it."""
    if not follow(query.name, query.status):
        typer.echo(f"{query.name} stops after the epoch that runs", err=True)
        query.stop()


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
