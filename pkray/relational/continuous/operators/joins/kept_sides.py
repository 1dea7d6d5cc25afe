"""Sides of joins whose rows are kept in a state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pkray.columns.batches import batch_of
from pkray.columns.keys import Codes
from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.operator import Context
from pkray.relational.continuous.operators.joins.join_sides import (
    COUNT,
    Asked,
    Delta,
    Held,
    JoinSide,
    SideSpec,
)
from pkray.relational.continuous.state.state import Found, StateSpec


class KeptSide(JoinSide):
    """A side with a state.

    Args:
        tallies: names of the counts of matches that are kept beside each row.
        name: of the state, where the side has several.
    """

    def __init__(
        self, spec: SideSpec, context: Context, *, tallies: Sequence[str] = (), name: str = ""
    ) -> None:
        super().__init__(spec, context)
        self.tallies = tuple(tallies)
        columns = [spec.input.fields.arrow.field(place) for place in spec.places]
        if self._counts:
            columns.append(pa.field(COUNT, pa.int64()))
        columns += [pa.field(each, pa.int64()) for each in tallies]
        opened = StateSpec(pa.schema(columns), by_row=True, index=spec.index, name=name)
        self._state = context.open_state(opened)

    def _standing(
        self, changes: Changes, keys: pa.Array, row_keys: pa.Array, groups: Codes
    ) -> Found:
        first = pa.array(groups.first_rows())
        return self._state.get(keys.take(first), row_keys.take(first))

    def held(self, asked: Asked, *, before: bool = False) -> Held:
        return self._held(asked.keys, self._state.rows_of(asked.keys))

    def held_row(self, keys: pa.Array, row_keys: pa.Array) -> Held:
        return self._held(keys, self._state.get(keys, row_keys))

    def write(self, delta: Delta, tallies: np.ndarray) -> None:
        keys = delta.keys.take(pa.array(delta.of_row))
        kept = delta.after > 0
        gone = pa.array(np.flatnonzero(~kept))
        self._state.remove(keys.take(gone), delta.row_keys.take(gone))
        chosen = pa.array(np.flatnonzero(kept))
        values = [column.take(chosen) for column in delta.rows.columns]
        if self._counts:
            values.append(pa.array(delta.after[kept]))
        values += [pa.array(each[kept]) for each in tallies]
        self._state.put(keys.take(chosen), values, delta.row_keys.take(chosen))

    def retally(self, held: Held, rows: np.ndarray, tallies: np.ndarray) -> None:
        chosen = pa.array(rows)
        values = [column.take(chosen) for column in held.rows.columns]
        if self._counts:
            values.append(pa.array(held.copies[rows]))
        values += [pa.array(each[rows]) for each in tallies]
        keys = held.keys.take(pa.array(held.positions[rows]))
        self._state.put(keys, values, held.row_keys.take(chosen))

    def _held(self, keys: pa.Array, found: Found) -> Held:
        width = len(self.fields)
        columns, count = found.rows.columns, found.rows.num_rows
        rows = batch_of(columns[:width], self.fields.arrow, count)
        copies = np.ones(count, np.int64)
        if self._counts:
            copies = columns[width].to_numpy(zero_copy_only=False)
        tallies = np.empty((len(self.tallies), count), np.int64)
        for i in range(len(self.tallies)):
            tallies[i] = columns[i - len(self.tallies)].to_numpy(zero_copy_only=False)
        assert found.row_keys is not None
        return Held(keys, found.positions, rows, found.row_keys, copies, tallies)
