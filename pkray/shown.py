"""Show objects in a notebook: small tables of HTML, in which every text is escaped."""

import html
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta


def html_table(caption: str, rows: Iterable[Sequence[object]], header: Sequence[str] = ()) -> str:
    """Write a table with a caption; None is an empty cell."""
    head = f"<thead>{_row(header, 'th')}</thead>" if header else ""
    body = "".join(_row(row, "td") for row in rows)
    return f"<table><caption>{html.escape(caption)}</caption>{head}<tbody>{body}</tbody></table>"


def html_values(caption: str, values: Mapping[str, object]) -> str:
    """Write names and values as a table, those that are None left out."""
    return html_table(caption, [(name, each) for name, each in values.items() if each is not None])


def _row(cells: Sequence[object], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"


def _text(cell: object) -> str:
    return "" if cell is None else html.escape(str(cell))


def time_text(millis: int) -> str:
    """Write epoch milliseconds for people, in UTC."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
    except OverflowError:  # beyond the years that there are
        return f"{millis} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
