"""Windows of time: each row with the bounds of the windows that it is in."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import batches_of, cut, in_one_piece, whole, with_schema
from pkray.columns.keys import argsort, begins, codes
from pkray.errors import EvaluationError
from pkray.relational.local.engine import Engine, operator
from pkray.relational.plan.nodes import Window, WindowKind
from pkray.rows.python_values import to_python

_PER_MILLI = {"ms": 1, "us": 1000, "ns": 1_000_000}
_MICROS = 1000
WINDOW_ROWS = 1 << 20
"""Rows that come out at once: a row is in as many windows as its size has steps."""


@operator(Window)
def windowed(node: Window, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Give each row once for each of its windows."""
    if node.kind is WindowKind.SESSION:
        held = engine.batches(node.input)
        for each in engine.memory.tables(node, held, node.partition_by, node.input.fields):
            table = in_one_piece(each)
            starts, ends = _sessions(node, table)
            made = with_bounds(node, table, np.arange(table.num_rows), starts, ends)
            yield from batches_of(made, engine.batch_rows)
        return
    place = 0
    for batch in _cut(node, engine.batches(node.input)):
        table = pa.Table.from_batches([batch])
        rows, starts, ends = _ASSIGNED[node.kind](node, times_of(node, table, place))
        yield from batches_of(with_bounds(node, table, rows, starts, ends), engine.batch_rows)
        place += batch.num_rows


def in_windows(node: Window, batch: pa.RecordBatch) -> pa.Table:
    """Give each row of a batch once for each of its windows, which are no sessions."""
    table = pa.Table.from_batches([batch])
    return with_bounds(node, table, *_ASSIGNED[node.kind](node, times_of(node, table)))


def _cut(node: Window, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut batches so that their rows are in few enough windows together."""
    windows = -(-node.size // node.step) if node.step else 1
    for batch in batches:
        yield from cut(batch, max(WINDOW_ROWS // windows, 1))


def times_of(node: Window, table: pa.Table, place: int = 0) -> np.ndarray:
    """Give the rows' times since 1970 as int64, in the unit in which windows are computed."""
    column = whole(table[node.time])
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        values = {name: to_python(table[name][row]) for name in table.column_names}
        raise EvaluationError(
            f"the time {node.time!r} of row {place + row} is NULL, so it is in no window: "
            f"filter such rows out; the row is {values}",
            column=node.time,
            row=place + row,
        )
    kind = pa.timestamp(_unit(node), column.type.tz)
    return np.asarray(column.cast(kind).view(pa.int64()))


def in_unit(node: Window, micros: int) -> int:
    """Give a duration of a window's in the unit of its times."""
    return micros * _PER_MILLI[_unit(node)] // _MICROS


def as_micros(node: Window, times: np.ndarray) -> np.ndarray:
    """Give times in the unit of a window's in microseconds, rounded up."""
    per_milli = _PER_MILLI[_unit(node)]
    if per_milli <= _MICROS:
        return times * (_MICROS // per_milli)
    return -(-times // (per_milli // _MICROS))


def _unit(node: Window) -> str:
    """Choose the unit of the column, unless a duration is none of whole milliseconds."""
    unit: str = node.input.fields[node.time].type.arrow.unit
    spans = (node.size, node.step, node.offset)
    return "us" if unit == "ms" and any(span % _MICROS for span in spans) else unit


def with_bounds(
    node: Window, table: pa.Table, rows: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> pa.Table:
    """Put the bounds beside rows."""
    schema = node.fields.arrow
    same = len(rows) == table.num_rows and bool((rows == np.arange(len(rows))).all())
    taken = table if same else table.take(pa.array(rows))
    last = ends - in_unit(node, _MICROS)
    bounds = [
        _as_time(values, schema.field(name).type, _unit(node))
        for values, name in zip((starts, ends, last), node.names, strict=True)
    ]
    columns = [*taken.columns, *bounds]
    return with_schema(pa.Table.from_arrays(columns, names=schema.names), schema)


def _as_time(values: np.ndarray, kind: pa.TimestampType, unit: str) -> pa.Array:
    times = pa.array(values).view(pa.timestamp(unit, kind.tz))
    return times if unit == kind.unit else pc.cast(times, kind, safe=False)


def _tumbling(node: Window, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    size, offset = in_unit(node, node.size), in_unit(node, node.offset)
    starts = times - (times - offset) % size
    return np.arange(len(times)), starts, starts + size


def _hopping(node: Window, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the windows that a time is in, the last to begin first."""
    size, step, offset = (in_unit(node, span) for span in (node.size, node.step, node.offset))
    most = -(-size // step)
    last = times - (times - offset) % step
    starts = (last[:, None] - step * np.arange(most)).ravel()
    rows = np.repeat(np.arange(len(times)), most)
    inside = starts + size > times[rows]
    return rows[inside], starts[inside], starts[inside] + size


def _cumulating(node: Window, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the windows that a time is in, the shortest first."""
    size, step, offset = (in_unit(node, span) for span in (node.size, node.step, node.offset))
    begin = times - (times - offset) % size
    most = -(-size // step)
    ends = np.minimum(step * np.arange(1, most + 1), size)
    ends = (begin[:, None] + ends).ravel()
    rows = np.repeat(np.arange(len(times)), most)
    inside = ends > times[rows]
    return rows[inside], begin[rows[inside]], ends[inside]


_ASSIGNED = {
    WindowKind.TUMBLE: _tumbling,
    WindowKind.HOP: _hopping,
    WindowKind.CUMULATE: _cumulating,
}


def _sessions(node: Window, table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Find each row's session: rows of a partition, each at most a gap after the one before."""
    times, gap = times_of(node, table), in_unit(node, node.size)
    partitions = codes([table[name] for name in node.partition_by], table.num_rows).of_row
    order = argsort([partitions, times], table.num_rows)
    sorted_times = times[order]
    first = begins([partitions[order]], len(order))
    first[1:] |= np.diff(sorted_times) > gap
    session = np.cumsum(first) - 1
    last = np.append(first[1:], True)[: len(first)]
    starts, ends = np.empty_like(times), np.empty_like(times)
    starts[order] = sorted_times[first][session]
    ends[order] = sorted_times[last][session] + gap
    return starts, ends
