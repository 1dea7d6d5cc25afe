"""Rows that wait for a moment of event time, in the order of their moments."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pkray import constants
from pkray.columns.batches import batch_of
from pkray.relational.continuous.operator import Context
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.continuous.state.state import Found, StateSpec

TIME = "due"
"""The column of the moments: microseconds since 1970."""
FIRST_ROWS, PAGE_ROWS = 1 << 10, 1 << 16
"""Rows that are read at a time: few at first, as often few are due."""
_NEVER = 1 << 63
_ALL = constants.texts([""]).cast(pa.binary())
"""The one key of the state: its rows stand in the order of their row keys."""


class Due(NamedTuple):
    """Rows whose moment has come.

    Attributes:
        times: int64, microseconds, ascending.
        rows: of the columns that were kept.
    """

    times: np.ndarray
    rows: pa.RecordBatch


class Waiting:
    """Keeps rows until event time passes them.

    A row is known by its moment and, among those of one moment, by the values that `by` says when
    it is put.

    Args:
        columns: what is kept of each row.
        index: of the operator's input that the rows are of.
        name: tells states of one operator and input apart.
        keys: columns that are kept and by which the rows are brought together; None: those of the
            operator's input.
        exchanged_by, is_everywhere: as of `StateSpec`, instead of `keys`.

    Attributes:
        worker: number of the worker whose rows it keeps.
    """

    def __init__(
        self,
        context: Context,
        columns: pa.Schema,
        *,
        index: int = 0,
        name: str = "",
        keys: Sequence[str] | None = None,
        exchanged_by: Callable[[pa.RecordBatch], pa.Array] | None = None,
        is_everywhere: bool = False,
    ) -> None:
        schema = pa.schema([pa.field(TIME, pa.int64()), *columns])
        self._columns = columns
        together = exchanged_by if keys is None else brought_together(schema, keys)
        spec = StateSpec(
            schema,
            by_row=True,
            index=index,
            name=name,
            exchanged_by=together,
            is_everywhere=is_everywhere,
        )
        self._state = context.open_state(spec)
        self.worker = self._state.worker
        self._next: int | None = None  # no row is due before; None: not known

    def put(self, times: np.ndarray, by: Sequence[pa.Array], values: Sequence[pa.Array]) -> None:
        """Keep rows, or newer ones in the place of those that are known by the same.

        Args:
            times: int64, microseconds, one a row.
            by: columns that tell rows of one moment apart, and order them.
            values: the columns kept.
        """
        if not len(times):
            return
        if self._next is not None:
            self._next = min(self._next, int(times.min()))
        moments = pa.array(times)
        self._state.put(_all(len(times)), [moments, *values], encoded([moments, *by]))

    @property
    def next_moment(self) -> int | None:
        """The moment before which nothing is due; None where nothing waits."""
        if self._next is None:
            found = self._state.rows_of(_ALL, first=1)
            self._next = int(found.rows.column(0)[0].as_py()) if len(found.positions) else _NEVER
        return None if self._next == _NEVER else self._next

    def get(self, times: np.ndarray, by: Sequence[pa.Array]) -> Found:
        """Find rows: their kept columns after the moment."""
        return self._state.get(_all(len(times)), encoded([pa.array(times), *by]))

    def remove(self, times: np.ndarray, by: Sequence[pa.Array]) -> None:
        """Forget rows; those that are not there are no fault."""
        self._state.remove(_all(len(times)), encoded([pa.array(times), *by]))

    def all(self) -> Iterator[pa.RecordBatch]:
        """Read all rows, in order: the columns that were kept."""
        bound, size = pa.array([b""], pa.binary()), PAGE_ROWS
        while True:
            found = self._state.rows_of(_ALL, first=size, bounds=bound)
            yield found.rows.drop_columns([TIME])
            if len(found.positions) < size:
                return
            bound = pa.array([found.row_keys[-1].as_py() + b"\0"], pa.binary())

    def due(self, until: int | None) -> Iterator[Due]:
        """Give the rows whose moment is `until` or before, in order, and forget them.

        They come in pages, so that memory is bounded.

        Args:
            until: microseconds; None: before all.
        """
        size = FIRST_ROWS
        while until is not None and (self._next is None or self._next <= until):
            bound = None if self._next is None else encoded([pa.array([self._next])])
            found = self._state.rows_of(_ALL, first=size, bounds=bound)
            times = np.asarray(found.rows.column(0))
            count = int(np.searchsorted(times, until, side="right"))
            if len(times) < size:
                self._next = _NEVER if count == len(times) else int(times[count])
            else:
                self._next = int(times[min(count, size - 1)])
            size = min(4 * size, PAGE_ROWS)
            if count:
                page = found.take(np.arange(count))
                self._state.remove(_all(count), page.row_keys)
                yield Due(times[:count], batch_of(page.rows.columns[1:], self._columns, count))


def brought_together(
    columns: pa.Schema, keys: Sequence[str]
) -> Callable[[pa.RecordBatch], pa.Array]:
    """Say by which columns of a state with row keys its rows are brought together."""
    places = [2 + columns.get_field_index(key) for key in keys]
    return lambda rows: encoded([rows.column(place) for place in places], rows.num_rows)


def _all(count: int) -> pa.Array:
    return pa.repeat(_ALL[0], count)


class DuePages:
    """Cuts pages, which are in the order of their moments."""

    def __init__(self, pages: Iterator[Due]) -> None:
        self._pages = pages
        self._page = next(pages, None)

    def last_whole(self) -> int | None:
        """Give the last moment of which all rows are read; if there is none yet, the first moment.
        None: there are no more rows."""
        if self._page is None:
            return None
        times = self._page.times
        whole = int(np.searchsorted(times, times[-1]))
        return int(times[whole - 1 if whole else 0])

    def up_to(self, moment: int) -> Iterator[Due]:
        """Give the rows of this moment and of those before it."""
        while self._page is not None:
            page = self._page
            count = int(np.searchsorted(page.times, moment, side="right"))
            if count:
                yield Due(page.times[:count], page.rows.slice(0, count))
            if count < len(page.times):
                self._page = Due(page.times[count:], page.rows.slice(count))
                return
            self._page = next(self._pages, None)
