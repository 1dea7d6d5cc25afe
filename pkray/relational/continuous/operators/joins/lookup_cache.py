"""Rows that lookups found, so that they need not be looked up again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from pkray.columns.batches import batch_of
from pkray.relational.continuous.operators.joins.join_sides import Asked, Held
from pkray.relational.continuous.operators.ordering import concat_rows
from pkray.relational.continuous.state.row_cache import HashesCollideError, RowCache
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.lookup_options import LookupOptions

_FOUND_AT = "$found_at"


class LookupCache:
    """Remembers the rows of keys, one each, until they change.

    It gives what looking up would give, also when an epoch is run again with nothing remembered.

    Args:
        fields: of the rows.
    """

    def __init__(self, options: LookupOptions, fields: Fields) -> None:
        self._options = options
        self._schema = fields.arrow
        self._types = [*(each.type for each in fields.arrow), pa.int64()]
        self._rows = self._empty()

    def _empty(self) -> RowCache:
        return RowCache(self._types, is_complete=False)

    def forget(self, keys: pa.Array) -> None:
        """Forget the rows of keys: they change."""
        try:
            self._rows.remove(keys.filter(pa.array(self._rows.slots(keys) >= 0)))
        except HashesCollideError:
            self._rows = self._empty()

    def held(self, asked: Asked, now: int, look_up: Callable[[Asked], Held]) -> Held:
        """Find the rows of keys: those that are remembered, and those that `look_up` finds.

        Args:
            now: processing time in milliseconds.
        """
        try:
            return self._held(asked, now, look_up)
        except HashesCollideError:
            self._rows = self._empty()
            return look_up(asked)

    def _held(self, asked: Asked, now: int, look_up: Callable[[Asked], Held]) -> Held:
        positions, columns = self._rows.rows_at(self._rows.slots(asked.keys))
        if self._options.cached_millis:
            fresh = pa.array(np.asarray(columns[-1]) + self._options.cached_millis > now)
            positions = positions[np.asarray(fresh)]
            columns = [column.filter(fresh) for column in columns]
        known = batch_of(columns[:-1], self._schema, len(positions))
        is_missing = np.ones(len(asked.keys), bool)
        is_missing[positions] = False
        missing = np.flatnonzero(is_missing)
        chosen = pa.array(missing)
        wanted = Asked(asked.keys.take(chosen), [each.take(chosen) for each in asked.columns])
        found = look_up(wanted)
        times = pa.array(np.full(len(found.positions), now))
        keys = wanted.keys.take(pa.array(found.positions))
        self._rows.put(keys, [*found.rows.columns, times])
        self._rows.keep_last_used(self._options.cached_rows)
        whole = np.concatenate([positions, missing[found.positions]])
        order = np.argsort(whole, kind="stable")
        rows = concat_rows(self._schema, [known, found.rows]).take(pa.array(order))
        row_keys = asked.keys.take(pa.array(whole[order]))
        one = np.ones(len(whole), np.int64)
        return Held(
            asked.keys, whole[order], rows, row_keys, one, np.zeros((0, len(whole)), np.int64)
        )
