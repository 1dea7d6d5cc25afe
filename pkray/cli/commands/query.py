"""The commands ``pkray query …``: what continuous queries there are, and what they do."""

from __future__ import annotations

import datetime
import time
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.live import Live
from rich.table import Table

from pkray.api.catalog import Catalog
from pkray.cli import output
from pkray.cli.arguments import Json, SnapshotId
from pkray.cli.warehouse import on_service, on_warehouse
from pkray.errors import OptionError
from pkray.service.hosted import Hosting

query_app = typer.Typer(name="query", help="Continuous queries.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="QUERY", help="The query's name: its table's.")]
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

_LOOK_SECONDS = 1.0
_EPOCH = datetime.datetime(1970, 1, 1)


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
        watch(query, stops=False)
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
    catalog: Catalog,
    name: Name,
    savepoint: Annotated[str, typer.Argument(metavar="NAME", help="The savepoint's name.")],
    as_json: Json = False,
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
    catalog: Catalog,
    name: Name,
    savepoint: Annotated[str, typer.Argument(metavar="NAME", help="The savepoint's name.")],
    as_json: Json = False,
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


def watch(query: Any, *, stops: bool = True) -> None:
    """Show what a query does until it ends, or until Ctrl+C.

    Args:
        stops: whether Ctrl+C stops the query.
    """
    with Live(_drawn(query.name, query.status()), refresh_per_second=4) as live:
        try:
            while True:
                now = query.status()
                live.update(_drawn(query.name, now))
                if now["state"] not in ("running", "starting"):
                    return
                time.sleep(_LOOK_SECONDS)
        except KeyboardInterrupt:
            if not stops:
                return
            live.update(_drawn(query.name, {**query.status(), "state": "stopping"}))
            query.stop()


def _drawn(name: str, status: dict[str, Any]) -> Table:
    marks = status.get("watermarks", {})
    places = "\n".join(
        _place(source, at, status, marks.get(source)) for source, at in status["sources"].items()
    )
    several = f", {status['workers']} workers" if status.get("workers", 1) > 1 else ""
    late = f", {status['late']:,} rows came late" if status.get("late") else ""
    title = f"{name}: {status['state']}, epoch {status['epoch']}{several}{late}"
    drawn = Table(title=title, caption=places)
    headings = ("node", "type", "rows in", "rows out", "seconds", "state", "in memory", "in files")
    for heading in headings:
        is_type = heading == "type"
        drawn.add_column(heading, justify="left" if is_type else "right", min_width=9 * is_type)
    for node in status["nodes"]:
        names = ("state_rows", "state_bytes", "state_file_bytes")
        rows, held, stored = (node.get(each, {}).values() for each in names)
        drawn.add_row(
            str(node["id"]),
            node["type"],
            f"{node['rows_in']:,}",
            f"{node['rows_out']:,}",
            f"{node['seconds']:.2f}",
            f"{sum(rows):,} rows" if rows else "",
            f"{sum(held) / 1e6:,.1f} MB" if held else "",
            f"{sum(stored) / 1e6:,.1f} MB" if stored else "",
        )
    if status["failure"]:
        drawn.caption = status["failure"]
    return drawn


def _place(source: str, at: int, status: dict[str, Any], watermark: int | None) -> str:
    """Say how far a source is read, its event time, how far behind that is, and what is to be
    compacted before it is read on."""
    place = f"{source} at {at}"
    if watermark is not None:
        reached = _EPOCH + datetime.timedelta(milliseconds=watermark)
        place += f", event time {reached.isoformat(' ', 'milliseconds')}"
    lag = status.get("lag", {}).get(source)
    if lag and lag["snapshots"]:
        place += f", {lag['snapshots']} snapshots and {lag['seconds']:.1f} s behind"
    untold = status.get("untold", {}).get(source)
    if untold:
        place += f", up to {untold['snapshot']} when it is compacted{' fully' * untold['full']}"
    return place
