"""Prints results: tables for people, JSON lines for programs."""

import re
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from pkray.cli.hexadecimal import to_hex
from pkray.errors import PkrayError
from pkray.rows.python_values import to_python

_ROWS_AT_ONCE = 1000
"""Rows printed at a time: a table is laid out as a whole, and must fit in memory."""
_WIDE = 1_000_000
_LOOK_SECONDS = 0.5
"""Between two looks why a write waits: soon enough for somebody who watches."""
_INDENTS: dict[str, Any] = {"initial_indent": "    ", "subsequent_indent": "    "}
_NULL = Text("NULL", style="dim")
_WHAT = "{task.description}"
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""JSON has no numbers for them: they are text there, spelled as SQL casts them."""
_LIKE_NULL = re.compile("'*NULL'*")


def table(data: pa.Table, as_json: bool, shown: Mapping[str, str] | None = None) -> None:
    """Print the rows of a table; to people only the columns ``shown``, by their headings."""
    if shown is not None and not as_json:
        data = data.select(list(shown.values())).rename_columns(list(shown))
    rows(data.to_batches(), data.schema, as_json)


def rows(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, as_json: bool, *, at_once: bool = False
) -> None:
    """Print rows as they come.

    Args:
        at_once: do not wait for more before any are printed.
    """
    least = 1 if at_once else _ROWS_AT_ONCE
    if as_json:
        for records in _records(batches, least):
            sys.stdout.write(b"".join(_line(record) for record in records).decode())
            if at_once:
                sys.stdout.flush()
        return
    console = _console()
    widths: list[int] | None = None
    printed = 0
    for records in _records(batches, least):
        widths = _print(console, schema, records, widths)
        printed += len(records)
    if widths is None:
        _print(console, schema, [], None)
    count(printed, "row")


def record(values: Mapping[str, Any], as_json: bool) -> None:
    """Print names and values; a list of mappings as a table below them."""
    if as_json:
        sys.stdout.write(_line(values).decode())
        return
    console = _console()
    below = {name: value for name, value in values.items() if _is_table(value)}
    shown = Table(box=None, show_header=False, pad_edge=False)
    for name, value in values.items():
        if name not in below and value not in (None, [], {}):
            shown.add_row(Text(name, style="bold"), _text(value))
    console.print(shown if shown.row_count or below else Text("nothing to do", style="dim"))
    for part in below.values():
        columns = [name for name in part[0] if any(row[name] is not None for row in part)]
        schema = pa.schema([(name, pa.string()) for name in columns])
        _print(console, schema, part, None)


def text(written: str, values: Mapping[str, Any], as_json: bool) -> None:
    """Print a text to people, its values to programs."""
    sys.stdout.write(_line(values).decode() if as_json else f"{written}\n")


def entry(heading: str, *lines: str) -> None:
    """Print a heading and lines below it, as wide as the terminal; 80 columns in a pipe."""
    width = max(shutil.get_terminal_size().columns, 40)
    wrapped = [textwrap.fill(line, width, **_INDENTS) for line in lines if line]
    console = _console()
    console.print(Text(heading, style="bold"))
    console.print(Text("\n".join(wrapped)))


def count(number: int, what: str) -> None:
    """Print how many of something there are."""
    plural = "" if number == 1 else "s"
    _console().print(f"{number:,} {what}{plural}", style="dim", highlight=False)


@contextmanager
def progress(what: str, sizes: Sequence[int | None]) -> Iterator[Callable[[int], None]]:
    """Show a bar on the terminal while files are read; call what it yields with bytes of each file.

    Args:
        sizes: of the files in bytes, None where unknown.
    """
    total = None if None in sizes else sum(size or 0 for size in sizes)
    finished, newest = 0, 0
    with copying(what) as show:

        def advance(done: int) -> None:
            nonlocal finished, newest
            if done < newest:  # the next file began
                finished += newest
            newest = done
            show(finished + newest, total)

        show(0, total)
        yield advance
        show(total, total)


@contextmanager
def copying(what: str) -> Iterator[Callable[[int | None, int | None], None]]:
    """Show a bar on the terminal; call what it yields with the bytes done and how many are
    known of."""
    bar = BarColumn(), DownloadColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with _shown(what, _WHAT, *bar) as show:
        yield show


@contextmanager
def counting(what: str) -> Iterator[Callable[[int], None]]:
    """Show a count on the terminal of what has been done, where nobody knows how much there is."""
    number = "{task.completed:,.0f}", TimeElapsedColumn()
    with _shown(what, SpinnerColumn(), _WHAT, *number) as show:
        yield lambda done: show(done, None)


@contextmanager
def steps(what: str, of: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on the terminal; call what it yields with the steps done and how many there
    are."""
    with _shown(what, _WHAT, BarColumn(), MofNCompleteColumn(), of, TimeElapsedColumn()) as show:
        yield show


@contextmanager
def _shown(
    what: str, *columns: str | ProgressColumn
) -> Iterator[Callable[[int | None, int | None], None]]:
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def waiting(what: str, why: Callable[[], str | None] = lambda: None) -> Iterator[None]:
    """Show on the terminal that work goes on.

    Args:
        why: what is waited for, if it is something worth saying; asked every now and then.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    done = threading.Event()
    with console.status(what) as status:

        def look() -> None:
            while not done.wait(_LOOK_SECONDS):
                with suppress(PkrayError):
                    reason = why()
                    status.update(f"{what}: {reason}" if reason else what)

        threading.Thread(target=look, daemon=True).start()
        try:
            yield
        finally:
            done.set()


def _console() -> Console:
    # A file or a pipe has no width: nothing is cut there.
    return Console() if sys.stdout.isatty() else Console(width=_WIDE)


def _print(
    console: Console, schema: pa.Schema, records: Sequence[Mapping[str, Any]], widths: Any
) -> list[int]:
    """Print rows; with the widths of the rows before them, as their continuation."""
    shown = Table(box=box.SIMPLE_HEAD, show_header=widths is None, show_edge=False, pad_edge=False)
    for index, field in enumerate(schema):
        right = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        shown.add_column(
            field.name,
            justify="right" if right or pa.types.is_decimal(field.type) else "left",
            min_width=widths[index] if widths else None,
            overflow="fold",
        )
    for row in records:
        shown.add_row(*(_text(row[field.name]) for field in schema))
    console.print(shown)
    measured = [
        max([len(field.name), *(len(_text(row[field.name])) for row in records)])
        for field in schema
    ]
    return widths or measured


def _text(value: Any) -> Text:
    if value is None:
        return _NULL
    if isinstance(value, dict):
        return Text(", ".join(f"{key}={_text(part)}" for key, part in value.items()))
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return Text(", ".join(map(_quoted, value)))
    if isinstance(value, str):
        return Text(_quoted(value))
    return Text(msgspec.json.encode(value).decode())


def _quoted(text: str) -> str:
    """Quote a text that would look like NULL, or like one that is quoted for that."""
    return f"'{text}'" if _LIKE_NULL.fullmatch(text) else text


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)


def _line(values: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(values) + b"\n"


def _records(
    batches: Iterable[pa.RecordBatch], least: int = _ROWS_AT_ONCE
) -> Iterator[list[dict[str, Any]]]:
    """Yield rows as JSON holds them, at least so many at a time."""
    waiting: list[dict[str, Any]] = []
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            part = batch.slice(start, _ROWS_AT_ONCE)
            names, columns = part.schema.names, [_values(column) for column in part.columns]
            waiting += [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
            if len(waiting) >= least:
                yield waiting
                waiting = []
    if waiting:
        yield waiting


def _values(column: pa.Array) -> list[Any]:
    if pa.types.is_nested(column.type):
        return [_nested(value) for value in column]
    values: list[Any] = _plain(column).to_pylist()
    if pa.types.is_floating(column.type):
        for index in pc.indices_nonzero(pc.invert(pc.is_finite(column))).to_pylist():
            values[index] = _NOT_FINITE[str(values[index])]
    return values


def _nested(value: pa.Scalar) -> Any:
    """Write what JSON has no values for as text wherever it is in a nested value."""
    if not value.is_valid:
        return None
    if isinstance(value, pa.StructScalar):
        return {name: _nested(part) for name, part in value.items()}
    if isinstance(value, pa.MapScalar):
        return [[_nested(part) for part in pair.values()] for pair in value.values]
    if isinstance(value, pa.ListScalar):
        return [_nested(part) for part in value.values]
    is_a = pa.types
    if is_a.is_binary(value.type) or is_a.is_floating(value.type):
        return _values(pa.array([value]))[0]
    if str(value.type).startswith("timestamp[ns"):
        return _values(pa.array([value]))[0]
    return to_python(value)


def _plain(column: pa.Array) -> pa.Array:
    """Write times, decimals and binary as text."""
    is_a = pa.types
    if is_a.is_timestamp(column.type):
        naive = column.cast(pa.timestamp(column.type.unit))
        text = pc.strftime(naive, "%Y-%m-%dT%H:%M:%S")
        return pc.binary_join_element_wise(text, "Z", "") if column.type.tz else text
    if is_a.is_date(column.type) or is_a.is_time(column.type) or is_a.is_decimal(column.type):
        return column.cast(pa.string())
    if is_a.is_binary(column.type):
        return to_hex(column)
    return column
