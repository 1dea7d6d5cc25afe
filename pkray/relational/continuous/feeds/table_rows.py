"""The rows of a keyed table by key, as of an epoch."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import batch_of, typed, whole
from pkray.columns.keys import codes
from pkray.relational.continuous.operator import SourceRows
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.sources.table import TableSource


class TableRows(SourceRows):
    """Looks rows up in the snapshots between which an epoch reads."""

    def __init__(self, source: TableSource) -> None:
        self._source = source
        self._table = source.original
        self._bounds = (-1, 0)
        self._names: dict[int, dict[str, str]] = {}

    def move(self, bounds: tuple[int, int]) -> None:
        """Go on to an epoch.

        Args:
            bounds: the snapshots after which and up to which it reads.
        """
        self._bounds = bounds
        self._names = {at: self._names[at] for at in bounds if at in self._names}

    @property
    def begins(self) -> bool:
        return self._bounds[0] <= 0

    def find(
        self, keys: pa.RecordBatch, columns: Sequence[str], *, before: bool
    ) -> tuple[np.ndarray, pa.RecordBatch]:
        snapshot = self._bounds[0 if before else 1]
        names, fields = keys.schema.names, self._source.fields.only(columns)
        if snapshot <= 0 or not keys.num_rows:
            empty = [pa.array([], field.type) for field in fields.arrow]
            return np.zeros(0, np.int64), batch_of(empty, fields.arrow, 0)
        then = self._names_at(snapshot)
        wanted = [each for each in dict.fromkeys([*columns, *names]) if each in then]
        asked = keys.rename_columns([then.get(each, each) for each in names])
        found = self._look_up(asked, [then[each] for each in wanted], snapshot)
        found = found.rename_columns(wanted)
        types = [keys.schema.field(name).type for name in names]
        there = encoded(
            [typed(_column(found, n, kind), kind) for n, kind in zip(names, types, strict=True)],
            found.num_rows,
        )
        positions = pc.fill_null(pc.index_in(there, value_set=encoded(keys.columns)), -1).to_numpy()
        order = np.argsort(positions, kind="stable")
        order = order[np.count_nonzero(positions < 0) :]
        rows = found.take(pa.array(order))
        kept = [_column(rows, each.name, each.type) for each in fields.arrow]
        return positions[order].astype(np.int64), batch_of(kept, fields.arrow, len(order))

    def _look_up(self, keys: pa.RecordBatch, columns: Sequence[str], snapshot: int) -> pa.Table:
        """Find the rows of keys, each once; where keys move, those of other partitions too.

        Args:
            keys, columns: by their names at the snapshot.
        """
        then = self._names_at(snapshot)
        key = [then[each] for each in self._source.primary_key]
        is_whole = set(keys.schema.names) >= set(key)
        if is_whole and keys.num_columns > len(key):
            first = codes([keys.column(name) for name in key], keys.num_rows).first_rows()
            keys = keys.select(list(key)).take(pa.array(first))
        look_up = self._table.lookup if is_whole else self._table.lookup_prefix
        return look_up(keys, columns=columns, visibility="committed", snapshot_id=snapshot)

    def _names_at(self, snapshot: int) -> dict[str, str]:
        """Name columns as they were called, by their names now: those that came later are left
        out, also where one that is gone had the name.
        """
        if snapshot not in self._names:
            then = {
                each.id: each.name for each in self._table.at(snapshot_id=snapshot).schema.fields
            }
            now = self._source.schema.fields
            self._names[snapshot] = {each.name: then[each.id] for each in now if each.id in then}
        return self._names[snapshot]


def _column(rows: pa.Table, name: str, kind: pa.DataType) -> pa.Array:
    """Take a column; NULLs where there is none."""
    if name in rows.column_names:
        return whole(rows.column(name))
    return pa.nulls(rows.num_rows, kind)
