"""Merge rows of a key column by column, as partial-update and aggregation do."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pkray.lsm.engines.functions import AggregateFunction
from pkray.lsm.engines.segments import Bools, Ints, Segments
from pkray.lsm.keys.key_groups import KeyGroups, take, taken
from pkray.lsm.merge.merge_function import MergeEngine, is_add
from pkray.schema.row_kind import DELETE, INSERT
from pkray.schema.table_schema import KIND, SEQUENCE, TableSchema


@dataclass(frozen=True)
class Selected:
    """The rows to merge, and the keys that come out as one of their rows.

    Args:
        rows: every key has some.
        asis: keys whose (last) row stays as it is, kind included; None: there are none.
    """

    rows: Segments
    asis: Bools | None


class FieldwiseEngine(MergeEngine):
    """Merges the rows of a key column by column.

    A key's only row stays as it is, kind included, unless ``always`` is asked for.

    Attributes:
        functions: the aggregate functions, by column.
    """

    def __init__(self, schema: TableSchema) -> None:
        self._keys = frozenset(schema.primary_keys)
        self._by_arrival = not schema.core.sequence_field
        self._names = [field.name for field in schema.fields if field.name not in self._keys]
        self.functions: dict[str, AggregateFunction] = {}

    def merge(self, groups: KeyGroups, *, always: bool = False) -> pa.RecordBatch:
        rows = groups.rows
        if not len(groups) or (not always and len(groups) == len(groups.order)):
            return take(rows, groups.order)
        selected = self._select(groups, always)
        segments = selected.rows
        last = segments.numbers(segments.ends - 1)
        wanted = pa.array(last)
        plain: dict[str, pa.Array] = {}
        for name in rows.schema.names:
            if name == SEQUENCE and not self._by_arrival:
                plain[name] = _newest_sequence(rows.column(name), groups)
            elif name == KIND:
                plain[name] = _merged_kinds(rows.column(name), last, selected.asis)
            elif name == SEQUENCE or name in self._keys:
                plain[name] = taken(rows.column(name), wanted)
        columns = self._merge_columns(rows, selected, wanted)
        arrays = [plain[name] if name in plain else columns[name] for name in rows.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)

    @abstractmethod
    def _merge_columns(
        self, rows: pa.RecordBatch, selected: Selected, last: pa.Array
    ) -> dict[str, pa.Array]:
        """Merge the value columns that ``rows`` has, keys left out."""

    @abstractmethod
    def _without_refused(self, rows: Segments) -> Segments:
        """Leave out rows that do not count.

        Args:
            rows: with ``retract`` where some row takes back; those of keys that stay as they are
                do not.

        Raises:
            MergeError: a row that the engine does not take.
        """

    def _select(self, groups: KeyGroups, always: bool) -> Selected:
        segments = Segments(groups.order, groups.starts, len(groups))
        asis = None if always else segments.sizes == 1
        retract = _retracts(groups.rows, groups.order)
        if retract is None:
            return Selected(segments, asis)
        if self.deletes_reset:
            segments, removed = _after_delete(groups.rows, segments)
            asis = removed if always else segments.sizes == 1
            retract = _retracts(groups.rows, segments.order)
        if retract is not None and asis is not None:
            retract = retract & ~np.repeat(asis, segments.sizes)
        if retract is None or not retract.any():
            return Selected(segments, asis)
        segments = Segments(segments.order, segments.starts, segments.keys, retract=retract)
        left = self._without_refused(segments)
        if left.which is None:
            return Selected(left, asis)
        # Nothing of a key counts: its last row stays, a -U or -D that changes nothing.
        is_last = np.zeros(len(segments.order), bool)
        is_last[segments.ends - 1] = True
        counted = np.ones(segments.keys, bool)
        counted[left.which] = False
        empty = counted
        kept = ~retract | (is_last & np.repeat(empty, segments.sizes))
        asis = empty if asis is None else asis | empty
        picked = segments.pick(kept)
        return Selected(Segments(picked.order, picked.starts, picked.keys), asis)


def merge_column(
    function: AggregateFunction, column: pa.Array, rows: Segments, selected: Selected
) -> pa.Array:
    """Merge one value a key; keys that stay as they are keep theirs.

    Args:
        rows: those of the selected that the function merges.
    """
    merged = function(column, rows)
    return merged if function.keeps_single else keep_asis(merged, column, selected)


def keep_asis(merged: pa.Array, column: pa.Array, selected: Selected) -> pa.Array:
    """Return the merged values, but for keys that stay as they are the value of their last row."""
    rows, asis = selected.rows, selected.asis
    if asis is None or not asis.any():
        return merged
    keys = np.flatnonzero(asis)
    single = taken(column, pa.array(rows.order[rows.ends[keys] - 1]))
    places = np.arange(len(merged))
    places[keys] = len(merged) + np.arange(len(keys))
    return taken(pa.concat_arrays([merged, single]), pa.array(places))


def _retracts(rows: pa.RecordBatch, order: Ints) -> Bools | None:
    position = rows.schema.get_field_index(KIND)
    if position < 0:
        return None
    kinds = rows.column(position).to_numpy()
    if not kinds.any():
        return None
    retract = ~is_add(pa.array(kinds[order]))
    return retract if retract.any() else None


def _after_delete(rows: pa.RecordBatch, segments: Segments) -> tuple[Segments, Bools]:
    """Return rows after each key's last -D, and the keys where none is: they keep the -D."""
    kinds = rows.column(KIND).to_numpy()[segments.order]
    last = segments.last_place(kinds == DELETE)
    removed = last == segments.ends - 1
    place = np.arange(len(kinds))
    bound = np.repeat(last + ~removed, segments.sizes)
    return segments.pick(place >= bound), removed


def _newest_sequence(numbers: pa.Array, groups: KeyGroups) -> pa.Array:
    return pa.array(np.maximum.reduceat(numbers.to_numpy()[groups.order], groups.starts))


def _merged_kinds(kinds: pa.Array, last: Ints, asis: Bools | None) -> pa.Array:
    merged = np.full(len(last), INSERT, np.int8)
    numbers = kinds.to_numpy()
    if asis is not None and numbers.any():
        merged[asis] = numbers[last[asis]]
    return pa.array(merged)
