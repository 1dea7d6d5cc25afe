"""Sides of joins whose rows are read from their source, as of an epoch, instead of being kept."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pkray.columns.batches import batch_of
from pkray.columns.keys import Codes
from pkray.relational.continuous.changes import Changes, all_valid, take, taken
from pkray.relational.continuous.operator import Context, SourceRows
from pkray.relational.continuous.operators.joins.join_sides import (
    COUNT,
    Asked,
    Delta,
    Held,
    JoinSide,
    SideSpec,
)
from pkray.relational.continuous.operators.stateless import NUMBER, numbered_step
from pkray.relational.continuous.state.state import Found, StateSpec
from pkray.relational.plan.nodes import Join, TemporalJoin
from pkray.relational.plan.source_sides import SourceSide, source_sides

_MANY = 1 << 40
"""More equal rows than are ever retracted: a source takes away nothing that was not there."""


def sourced_side(node: Join | TemporalJoin, spec: SideSpec, context: Context) -> SourcedSide | None:
    """Make a side that reads its rows from their source; None where it has to keep them."""
    side = source_sides(node)[spec.index]
    rows = None if side is None or context.expires else context.rows_of(side.scan.source)
    if side is None or rows is None:
        return None
    if side.finds:
        return SourcedSide(spec, context, side, rows)
    names = spec.input.fields.names
    primary = [spec.places.index(names.index(name)) for name in side.primary_key]
    return IndexedSide(spec, context, side, rows, primary)


def is_free_of_state(node: Join, context: Context) -> bool:
    """Whether both sides are read from sources that find them by the join key."""
    if context.expires:
        return False
    return all(
        side is not None and side.finds and context.rows_of(side.scan.source) is not None
        for side in source_sides(node)
    )


class SourcedSide(JoinSide):
    """A side that keeps nothing: its source finds its rows by the join key.

    The changes of the source are complete: what an update or a delete takes away is what they say.

    Attributes:
        source: the rows of the source.
        is_indexed: whether join keys and their primary keys are kept.
    """

    is_indexed = False

    def __init__(
        self, spec: SideSpec, context: Context, side: SourceSide, rows: SourceRows
    ) -> None:
        super().__init__(spec, context)
        self.source = rows
        self._side = side
        self._steps = [numbered_step(each) for each in side.path]

    def held(self, asked: Asked, *, before: bool = False) -> Held:
        numbers = np.flatnonzero(all_valid(asked.columns, len(asked.keys)))
        columns = taken(asked.columns, numbers)
        positions, rows = self._read(columns, self._side.key, before)
        return self._held(asked, numbers[positions], rows)

    def held_row(self, keys: pa.Array, row_keys: pa.Array) -> Held:
        raise NotImplementedError("a side that counts no matches finds no rows by their row key")

    def write(self, delta: Delta, tallies: np.ndarray) -> None:
        return

    def retally(self, held: Held, rows: np.ndarray, tallies: np.ndarray) -> None:
        return

    def _all_are_new(self, changes: Changes) -> bool:
        return changes.is_append

    def _standing(
        self, changes: Changes, keys: pa.Array, row_keys: pa.Array, groups: Codes
    ) -> Found:
        first = groups.first_rows()
        rows = self._kept(changes)
        if self._key is None:
            counts = pa.repeat(pa.scalar(_MANY, pa.int64()), len(first))
            columns = [*take(rows, first).columns, counts]
            names = [*rows.schema.names, COUNT]
            return Found(np.arange(len(first)), pa.RecordBatch.from_arrays(columns, names=names))
        stood = np.flatnonzero(~changes.adds[first])
        return Found(stood, take(rows, first[stood]))

    def _read(
        self, columns: list[pa.Array], names: tuple[str, ...], before: bool
    ) -> tuple[np.ndarray, pa.RecordBatch]:
        """Read rows of the side's input by columns of the source."""
        scan = self._side.scan.fields
        keys = pa.RecordBatch.from_arrays(columns, names=list(names))
        positions, rows = self.source.find(keys, scan.names, before=before)
        rows = batch_of(rows.columns, scan.arrow, rows.num_rows)
        for step in self._steps:
            numbers = pa.array(np.arange(rows.num_rows))
            made = step(rows.append_column(NUMBER, numbers))
            positions = positions[made.column(NUMBER).to_numpy()]
            rows = made.drop_columns([NUMBER])
        return positions, rows

    def _held(self, asked: Asked, positions: np.ndarray, rows: pa.RecordBatch) -> Held:
        count = len(positions)
        kept = batch_of([rows.column(at) for at in self._places], self.fields.arrow, count)
        nothing = pa.nulls(count, pa.binary())
        return Held(
            asked.keys, positions, kept, nothing, np.ones(count, np.int64), np.zeros((0, count))
        )


class IndexedSide(SourcedSide):
    """A side that keeps the primary keys of each join key: its source finds its rows by those."""

    is_indexed = True

    def __init__(
        self,
        spec: SideSpec,
        context: Context,
        side: SourceSide,
        rows: SourceRows,
        primary: list[int],
    ) -> None:
        super().__init__(spec, context, side, rows)
        self._primary = primary
        columns = pa.schema([spec.fields.arrow.field(place) for place in primary])
        opened = StateSpec(columns, by_row=True, index=spec.index, name="index")
        self._state = context.open_state(opened)

    def held(self, asked: Asked, *, before: bool = False) -> Held:
        found = self._state.rows_of(asked.keys)
        names = self._side.scan.source.primary_key
        positions, rows = self._read(found.rows.columns, names, before)
        return self._held(asked, found.positions[positions], rows)

    def write(self, delta: Delta, tallies: np.ndarray) -> None:
        keys = delta.keys.take(delta.of_row)
        values = [delta.rows.column(place) for place in self._primary]
        self._state.change(keys, values, delta.after > 0, delta.after <= 0, delta.row_keys)
