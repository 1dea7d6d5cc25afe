"""The command ``pkray demo``: a stream, queries and the console, to look at."""

import random
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from pkray.api.catalog import Catalog, connect
from pkray.cli.ending import until_ended
from pkray.clock import now_millis
from pkray.extras import wing

_COUNTRIES = ("DE", "FR", "IT", "JP", "US")
_CUSTOMERS = 50
_PRODUCTS = ("apples", "bread", "cheese", "coffee", "oranges", "pasta", "tea")
_ORDERS = 25
"""New ones of a commit."""
_PAUSE_SECONDS = 0.5
"""Between two commits: numbers in the console move, and the machine stays free."""
_STOP_SECONDS = 60.0
_CHANGES = {"bucket": "2", "changelog-producer": "lookup", "snapshot.num-retained.max": "200"}
_QUERIES = {
    "demo.by_country": (
        "SELECT c.country, COUNT(*) AS orders, SUM(o.amount) AS amount "
        "FROM demo.orders AS o JOIN demo.customers AS c ON o.customer = c.id GROUP BY c.country"
    ),
    "demo.by_window": (
        "SELECT window_start, COUNT(*) AS orders, SUM(amount) AS amount "
        "FROM TABLE(TUMBLE(TABLE demo.orders, DESCRIPTOR(at), INTERVAL '10' SECONDS)) "
        "GROUP BY window_start, window_end"
    ),
    "demo.best_products": (
        "SELECT product, amount, place FROM (SELECT product, amount, "
        "ROW_NUMBER() OVER (ORDER BY amount DESC) AS place FROM "
        "(SELECT product, SUM(amount) AS amount FROM demo.orders GROUP BY product)) "
        "WHERE place <= 3"
    ),
}
"""SQL by the table of its result."""


def demo(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[FOLDER]", help="Keeps it; else it is gone at the end."),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the console in a browser.")
    ] = True,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=0, help="End after so long; else Ctrl-C ends it."),
    ] = None,
) -> None:
    """Show a small stream, three queries and the console, until Ctrl-C."""
    serve = wing("serving").serve

    def opened(address: str, end: Callable[[], None]) -> None:
        if seconds is not None:
            timer = threading.Timer(seconds, end)
            timer.daemon = True
            timer.start()
        if browser:
            webbrowser.open(address)

    with until_ended(), ExitStack() as kept:
        place = folder or kept.enter_context(tempfile.TemporaryDirectory(prefix="pkray-demo-"))
        catalog = kept.enter_context(connect(place))
        kept.enter_context(played(catalog))
        serve(catalog, port=port, allow_changes=True, opened=opened)


@contextmanager
def played(catalog: Catalog) -> Iterator[None]:
    """Write orders as long as the context is open, and keep queries over them running.

    Tables and queries that are there from before go on.
    """
    _make_tables(catalog)
    there = {each.name: each for each in catalog.queries()}
    running = []
    for name, text in _QUERIES.items():
        if name in there:
            running.append(there[name].resume())
        else:
            running.append(catalog.sql(text).materialize(name))
    ended = threading.Event()
    writing = threading.Thread(target=_write, args=(catalog, ended), name="pkray-demo")
    writing.start()
    try:
        yield
    finally:
        ended.set()
        writing.join(_STOP_SECONDS)
        for query in running:
            query.stop(_STOP_SECONDS)


def _make_tables(catalog: Catalog) -> None:
    customers = catalog.create_table(
        "demo.customers",
        [("id", "INT"), ("country", "STRING")],
        ["id"],
        options=_CHANGES,
        comment="Who orders",
        if_not_exists=True,
    )
    columns = [
        ("id", "BIGINT"),
        ("customer", "INT"),
        ("product", "STRING"),
        ("amount", "DECIMAL(10, 2)"),
        ("at", "TIMESTAMP(6)"),
    ]
    if catalog.table_exists("demo.orders"):
        return
    orders: Any = catalog.create_table(
        "demo.orders", columns, ["id"], options=_CHANGES, comment="A small stream"
    )
    orders.alter.set_watermark("at", "2 s")
    customers.upsert([{"id": each, "country": _COUNTRIES[each % 5]} for each in range(_CUSTOMERS)])


def _write(catalog: Catalog, ended: threading.Event) -> None:
    """Write new orders, and change one that is there with each."""
    chosen, number = random.Random(0), now_millis()
    with catalog.load_table("demo.orders").open_writer() as writer:
        while not ended.wait(_PAUSE_SECONDS):
            writer.upsert([_order(chosen, number + each) for each in range(_ORDERS)])
            writer.upsert([_order(chosen, number)])
            writer.commit()
            number += _ORDERS


def _order(chosen: random.Random, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "customer": chosen.randrange(_CUSTOMERS),
        "product": chosen.choice(_PRODUCTS),
        "amount": Decimal(chosen.randint(100, 20_000)).scaleb(-2),
        "at": datetime.now(UTC).replace(tzinfo=None),
    }
