"""Shows what a query does, as a table that follows it in a terminal and in a notebook."""

import datetime
import html
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pkray.shown import html_table

_HEADINGS = ("node", "type", "rows in", "rows out", "seconds", "state", "in memory", "in files")
_LOOK_SECONDS = 1.0
_EPOCH = datetime.datetime(1970, 1, 1)
_GOING = ("running", "starting")

Status = Mapping[str, Any]


def follow(name: str, status: Callable[[], Status], seconds: float | None = None) -> bool:
    """Show a query until it ends, for so long at most, or until Ctrl+C; whether it was not that.

    Args:
        status: says what it does.
        seconds: None: as long as it runs.
    """
    shown = _in_notebook if _is_notebook() else _in_terminal
    try:
        shown(name, _looks(status, seconds))
    except KeyboardInterrupt:
        return False
    return True


def drawn(name: str, status: Status) -> Any:
    """Draw a query for a terminal."""
    from rich.table import Table

    made = Table(title=_title(name, status), caption=_below(status))
    for heading in _HEADINGS:
        is_type = heading == "type"
        made.add_column(heading, justify="left" if is_type else "right", min_width=9 * is_type)
    for row in _rows(status):
        made.add_row(*row)
    return made


def html_of(name: str, status: Status) -> str:
    """Write a query as HTML, in which every text is escaped."""
    below = "<br>".join(map(html.escape, _places(status).splitlines()))
    made = f"{html_table(_title(name, status), _rows(status), _HEADINGS)}<p>{below}</p>"
    return f"{made}<pre>{html.escape(status['sql'])}</pre>" if status.get("sql") else made


def _looks(status: Callable[[], Status], seconds: float | None) -> Iterator[Status]:
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        now = status()
        yield now
        left = _LOOK_SECONDS if deadline is None else deadline - time.monotonic()
        if now["state"] not in _GOING or left <= 0:
            return
        time.sleep(min(_LOOK_SECONDS, left))


def _in_terminal(name: str, looks: Iterator[Status]) -> None:
    from rich.live import Live

    with Live(drawn(name, next(looks)), refresh_per_second=4) as live:
        for now in looks:
            live.update(drawn(name, now))


def _in_notebook(name: str, looks: Iterator[Status]) -> None:
    from IPython.display import HTML, display

    handle = display(HTML(html_of(name, next(looks))), display_id=True)
    for now in looks:
        handle.update(HTML(html_of(name, now)))


def _is_notebook() -> bool:
    """Whether this is the process of a notebook, which has loaded IPython itself."""
    found = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return found is not None and hasattr(found, "kernel")


def _title(name: str, status: Status) -> str:
    several = f", {status['workers']} workers" if status.get("workers", 1) > 1 else ""
    late = f", {status['late']:,} rows came late" if status.get("late") else ""
    return f"{name}: {status['state']}, epoch {status['epoch']}{several}{late}"


def _below(status: Status) -> str:
    return "\n".join(filter(None, [_places(status), status.get("sql")]))


def _places(status: Status) -> str:
    if status["failure"]:
        return str(status["failure"])
    marks = status.get("watermarks", {})
    places = status["sources"].items()
    return "\n".join(_place(source, at, status, marks.get(source)) for source, at in places)


def _rows(status: Status) -> Iterator[list[str]]:
    for node in status["nodes"]:
        names = ("state_rows", "state_bytes", "state_file_bytes")
        rows, held, stored = (node.get(each, {}).values() for each in names)
        yield [
            str(node["id"]),
            node["type"],
            f"{node['rows_in']:,}",
            f"{node['rows_out']:,}",
            f"{node['seconds']:.2f}",
            f"{sum(rows):,} rows" if rows else "",
            f"{sum(held) / 1e6:,.1f} MB" if held else "",
            f"{sum(stored) / 1e6:,.1f} MB" if stored else "",
        ]


def _place(source: str, at: int, status: Status, watermark: int | None) -> str:
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
