"""Window functions over rows in the order of their event time: a row comes when it is passed.

Rows wait until the watermark passes them. No row comes between those that are passed any more, so
that what calls that look back give of them is final. Of the rows that came, only those are kept
that calls still look at: the last ones of each partition with the values that go on from there, or
those within the time that frames reach back.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pkray.columns.batches import batch_of
from pkray.lsm.keys.keys import NormalizedKeys
from pkray.relational.continuous.changes import Changes, concat_rows, concatenated, take, taken
from pkray.relational.continuous.operator import Context, Epoch, Operator, operates
from pkray.relational.continuous.operators.carried import carried_values
from pkray.relational.continuous.operators.ordering import numbers_within, order_keys
from pkray.relational.continuous.operators.windows.event_time import micros, on_time
from pkray.relational.continuous.operators.windows.recent import Recent
from pkray.relational.continuous.operators.windows.waiting import DuePages, Waiting
from pkray.relational.continuous.state.encoding import distinct, encoded, parts
from pkray.relational.continuous.state.state import Found, StateSpec
from pkray.relational.functions.aggregates.sums import means
from pkray.relational.plan.expressions import Frame, WindowCall
from pkray.relational.plan.nodes import BIGINT, Over
from pkray.relational.plan.over import NOTHING, goes_on, history, is_average_so_far
from pkray.relational.plan.physical import exchange_keys
from pkray.schema.types import DataType

_WAITING = 1
"""The number of the states of rows that wait, and of those that are forgotten at a time."""
_KEYS = pa.schema([pa.field("partition", pa.binary()), pa.field("place", pa.binary())])


class _Call(NamedTuple):
    """A call of a node, put together of calls that go on from the row before.

    Attributes:
        parts: numbers of these calls: itself, or the sum and the count of an average.
    """

    call: WindowCall
    parts: tuple[int, ...]


@operates(Over, when=lambda node: node.waits)
class OverInTime(Operator):
    """Adds a column a window function to each row that the watermark passes."""

    def __init__(self, node: Any, context: Context) -> None:
        super().__init__(node, context)
        self._schema = node.input.fields.arrow
        self._time = node.order_by[0].column
        self._computed, self._given = _taken_apart(node)
        self._carried = [place for place, call in enumerate(self._computed) if goes_on(call)]
        self._history = history(node.calls)
        self._rows = context.open_state(StateSpec(self._kept(), by_row=True))
        keys = exchange_keys(node.input)
        self._waiting = Recent(context, self._schema, keys=keys, index=_WAITING)
        self._reach = 0
        self._leaving: Waiting | None = None
        if self._history is not None and self._history.micros and not self._history.rows:
            self._reach = self._history.micros
            types = [node.input.fields[name].type.arrow for name in node.partition_by]
            places = [node.partition_by.index(name) for name in keys]
            self._leaving = Waiting(
                context,
                _KEYS,
                index=_WAITING,
                name="leaving",
                exchanged_by=lambda rows: parts(rows.column("partition"), types, places),
            )

    def _kept(self) -> pa.Schema:
        values = (self._computed[place].type.arrow for place in self._carried)
        return pa.schema([*self._schema, *(pa.field(f"${i}", v) for i, v in enumerate(values))])

    def apply(self, inputs: Sequence[Changes], epoch: Epoch) -> Changes:
        self._take(inputs[0], epoch)
        if not epoch.ends:
            return Changes.none(self.node.fields)
        made = [self._passed(rows) for rows in self._due(epoch.next_watermark)]
        self._forget(epoch.next_watermark)
        return concatenated(self.node.fields, made)

    def _take(self, changes: Changes, epoch: Epoch) -> None:
        """Have rows wait; those that the watermark has passed already are left out."""
        if not len(changes):
            return
        times = micros(changes.column(self._time))
        numbers = on_time(self.context, 0, changes, times, epoch)
        if len(numbers) < len(times):
            changes, times = changes.take(numbers), times[numbers]
        arrivals = pa.repeat(pa.scalar(epoch.arrival, pa.int64()), len(changes))
        # several workers number their rows alike, but each has keys of its own
        by = [arrivals, pa.array(numbers), *changes.columns(exchange_keys(self.node.input))]
        self._waiting.put(times, by, changes.rows.columns)

    def _due(self, watermark: int | None) -> Iterator[pa.RecordBatch]:
        """Give the rows that are passed, in the order of their times; those of a time together."""
        pages = DuePages(self._waiting.due(watermark))
        while (moment := pages.last_whole()) is not None:
            found = [page.rows for page in pages.up_to(moment)]
            yield found[0] if len(found) == 1 else concat_rows(self._schema, found)

    def _passed(self, rows: pa.RecordBatch) -> Changes:
        """Compute the values of rows that follow all that came before."""
        count = rows.num_rows
        changes = Changes.of_kind(rows)
        keys, partitions = distinct(encoded(changes.columns(self.node.partition_by), count))
        row_keys = order_keys(changes, self.node.order_by, np.arange(count))
        before = self._before(keys)
        known = len(before.positions)
        width = len(self._schema)
        nothing = [pa.nulls(count, self._computed[place].type.arrow) for place in self._carried]
        new = batch_of([*rows.columns, *nothing], self._kept(), count)
        together = concat_rows(self._kept(), [before.rows, new])
        of_row = np.concatenate([before.positions, partitions])
        places = pa.concat_arrays([before.row_keys, row_keys])
        order, _ = NormalizedKeys([pa.array(of_row), places]).sort(stable=True)
        together, of_row = take(together, order), of_row[order]
        own = batch_of(together.columns[:width], self._schema, len(order))
        is_before = order < known
        kept: list[pa.Array | None] = [None] * len(self._computed)
        for place, column in zip(self._carried, together.columns[width:], strict=True):
            kept[place] = column
        values = carried_values(own, of_row, is_before, self.node.order_by, self._computed, kept)
        stored = [*own.columns, *(values[place] for place in self._carried)]
        self._store(keys, of_row, places.take(order), is_before, stored)
        of_new = np.empty(count, np.int64)
        of_new[order[~is_before] - known] = np.flatnonzero(~is_before)
        found = taken(values, of_new)
        columns = [*rows.columns, *(_value(each, found) for each in self._given)]
        return Changes.of_kind(batch_of(columns, self.node.fields.arrow, count))

    def _before(self, keys: pa.Array) -> Found:
        """Read what is kept of partitions."""
        if self._history == NOTHING:
            nothing = concat_rows(self._kept(), [])
            return Found(np.zeros(0, np.int64), nothing, pa.array([], pa.binary()))
        if self._history is None or self._history.micros:
            return self._rows.rows_of(keys)
        return self._rows.rows_of(keys, last=self._history.rows)

    def _store(
        self,
        keys: pa.Array,
        partitions: np.ndarray,
        places: pa.Array,
        is_before: np.ndarray,
        columns: Sequence[pa.Array],
    ) -> None:
        """Keep the rows that those to come look at."""
        stays = self._stays(partitions, columns)
        new, old = np.flatnonzero(stays & ~is_before), np.flatnonzero(is_before & ~stays)
        of_new, row_keys = keys.take(partitions[new]), places.take(new)
        self._rows.put(of_new, taken(columns, new), row_keys)
        self._rows.remove(keys.take(partitions[old]), places.take(old))
        if self._leaving is not None:
            times = micros(columns[self._schema.get_field_index(self._time)].take(new))
            self._leaving.put(times + self._reach, [of_new, row_keys], [of_new, row_keys])

    def _stays(self, partitions: np.ndarray, columns: Sequence[pa.Array]) -> np.ndarray:
        if self._history is None or self._leaving is not None:
            return np.ones(len(partitions), bool)
        numbers, sizes = numbers_within(partitions)
        stays: np.ndarray = sizes - numbers <= self._history.rows
        if self._history.micros:
            times = micros(columns[self._schema.get_field_index(self._time)])
            last = np.repeat(times[numbers == sizes - 1], sizes[numbers == 0])
            stays |= times > last - self._history.micros - 1
        return stays

    def _forget(self, watermark: int | None) -> None:
        """Forget the rows to which no frame reaches back any more."""
        if self._leaving is not None:
            for page in self._leaving.due(watermark):
                self._rows.remove(*page.rows.columns)


def _taken_apart(node: Over) -> tuple[list[WindowCall], list[_Call]]:
    """List what is computed of a node's calls, and of what each is put together.

    Ranks go on from the numbers of rows, which come last.
    """
    made: list[WindowCall] = []
    given = []
    for _, call in node.calls:
        own = [call]
        if is_average_so_far(call):
            own = [_total(node, call), WindowCall("count", call.arguments, BIGINT, call.frame)]
        given.append(_Call(call, tuple(range(len(made), len(made) + len(own)))))
        made += own
    if any(call.function == "rank" for call in made):
        made.append(WindowCall("row_number", (), BIGINT, Frame("rows", None, 0)))
    return made, given


def _total(node: Over, call: WindowCall) -> WindowCall:
    """Sum up what a call averages."""
    (argument,) = call.arguments
    of = node.input.fields[argument].type
    kind = DataType("BIGINT")
    if of.root in ("FLOAT", "DOUBLE"):
        kind = DataType("DOUBLE")
    elif of.root == "DECIMAL":
        kind = DataType("DECIMAL", precision=38, scale=of.scale)
    return WindowCall("sum", call.arguments, kind, call.frame)


def _value(each: _Call, values: Sequence[pa.Array]) -> pa.Array:
    if len(each.parts) == 1:
        return values[each.parts[0]]
    total, counts = (values[place] for place in each.parts)
    return means(each.call, total, np.asarray(counts))
