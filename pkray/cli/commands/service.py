"""The commands ``pkray service …``: the processes that serve a warehouse's tables on Ray."""

import logging
import os
import signal
import threading
from typing import Annotated, Any

import pyarrow as pa
import typer

from pkray.api.catalog import Catalog
from pkray.cli import output
from pkray.cli.arguments import Json
from pkray.cli.warehouse import on_cluster, on_named_cluster
from pkray.service.settings import SETTINGS, Settings

_log = logging.getLogger(__name__)

service_app = typer.Typer(
    name="service", help="The processes that serve the tables on Ray.", no_args_is_help=True
)

Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0, help="For how long to wait.")
]
Node = Annotated[
    str, typer.Argument(metavar="NODE", help="Its id, four digits of that or more, or its address.")
]
_LOOK_SECONDS = 10.0
"""Between two looks whether the service still runs: a look asks the cluster for one name."""
_SHORT_ID = 12
"""Digits of a node's id: enough to tell nodes apart."""


@service_app.command("start")
@on_named_cluster("lasting")
def start(
    catalog: Catalog,
    stay: Annotated[
        bool,
        typer.Option(
            "--stay",
            help="Stay until SIGTERM, and start again what is lost; the service outlives that.",
        ),
    ] = False,
    timeout: Timeout = 120,
    as_json: Json = False,
) -> None:
    """Start the pool of workers, its tables, and the queries that are to run.

    Where no Ray cluster runs on this machine and --ray names none, one is started that lasts until
    `ray stop`.
    """
    ended = threading.Event()
    if stay:
        signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with output.waiting("starting the workers"):
        found = catalog.service().start(timeout)
    _print(found, as_json)
    while stay and not ended.wait(_LOOK_SECONDS):
        if catalog.service().keep(timeout):
            _log.warning("the workers were gone: the service has been started again")


@service_app.command("status")
@on_named_cluster("auto")
def status(catalog: Catalog, as_json: Json = False) -> None:
    """Say what runs, and where; exit with 1 where nothing does."""
    found = catalog.service().status()
    _print(found, as_json)
    if not found.is_running:
        raise typer.Exit(1)


@service_app.command("stop")
@on_named_cluster("auto")
def stop(catalog: Catalog, timeout: Timeout = 60, as_json: Json = False) -> None:
    """End the processes; queries go on with the next start."""
    with output.waiting("ending queries and workers"):
        catalog.service().stop(timeout)
    output.record({"stopped": True}, as_json)


@service_app.command("drain")
@on_cluster
def drain(catalog: Catalog, node: Node, timeout: Timeout = 120, as_json: Json = False) -> None:
    """Hand what a node has over to others, and keep new parts away from it."""
    with output.waiting("handing parts over"):
        found = catalog.service().drain(node, timeout)
    output.record({"drained": found}, as_json)


@service_app.command("undrain")
@on_cluster
def undrain(catalog: Catalog, node: Node, as_json: Json = False) -> None:
    """Let a node have parts again."""
    output.record({"undrained": catalog.service().undrain(node)}, as_json)


@service_app.command("restart")
@on_cluster
def restart(
    catalog: Catalog,
    rolling: Annotated[
        bool, typer.Option("--rolling", help="One worker after the other, while writers go on.")
    ] = False,
    timeout: Timeout = 120,
    as_json: Json = False,
) -> None:
    """Begin the workers anew: all at once, or one after the other."""
    service = catalog.service()
    with output.waiting("beginning workers anew"):
        if rolling:
            output.record({"restarted": service.restart(timeout)}, as_json)
        else:
            service.stop(timeout)
            _print(service.start(timeout), as_json)


@service_app.command("logs")
@on_cluster
def logs(
    catalog: Catalog,
    table: Annotated[
        str | None, typer.Option("--table", metavar="TABLE", help="What has parts of this table.")
    ] = None,
    query: Annotated[
        str | None, typer.Option("--query", metavar="QUERY", help="What runs this query.")
    ] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Of each process.")] = 20,
    as_json: Json = False,
) -> None:
    """Print the ends of what the processes have written, without secrets."""
    for name, text in catalog.service().logs(table, query, lines).items():
        shown = f"== {name}\n{text}" if text else f"== {name}: nothing"
        output.text(shown, {"process": name, "log": text}, as_json)


@service_app.command("settings")
def settings(as_json: Json = False) -> None:
    """Print what the file of settings and the environment say; exit with 1 where one is wrong."""
    given = Settings.read(os.environ).given
    rows = [
        {
            "setting": each.name,
            "value": str(given[each.name].value) if each.name in given else each.default,
            "from": given[each.name].source if each.name in given else None,
            "variable": each.variable,
            "takes": each.kind.allowed,
            "meaning": each.meaning,
        }
        for each in SETTINGS
    ]
    columns = ("setting", "value", "from", "variable", "takes", "meaning")
    found = pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in columns]))
    output.table(found if as_json else found.select(columns[:3]), as_json)


def _print(found: Any, as_json: bool) -> None:
    table = found.to_arrow()
    if not as_json:
        table = _for_people(table)
    output.table(table, as_json)


def _for_people(table: pa.Table) -> pa.Table:
    """Shorten ids, and write sizes and times with their units."""
    shown = table.to_pydict()
    return pa.table(
        {
            "kind": shown["kind"],
            "name": shown["name"],
            "state": shown["state"],
            "worker": pa.array(shown["worker"], pa.int64()),
            "node": pa.array([each and each[:_SHORT_ID] for each in shown["node"]], pa.string()),
            "host": pa.array(shown["host"], pa.string()),
            "pid": pa.array(shown["pid"], pa.int64()),
            "memory": pa.array([_size(each) for each in shown["memory"]], pa.string()),
            "age": pa.array([_age(each) for each in shown["age"]], pa.string()),
        }
    )


def _size(count: int | None) -> str | None:
    return None if count is None else f"{count / 1e6:,.0f} MB"


def _age(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"
