"""Columns that are not null overwrite one by one, those of a sequence group together."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pkray.errors import MergeError
from pkray.lsm.engines.fieldwise import FieldwiseEngine, Selected, keep_asis, merge_column
from pkray.lsm.engines.functions import AggregateFunction, aggregate_function
from pkray.lsm.engines.segments import Bools, Ints, Segments, take_numbers, take_valid, valid_at
from pkray.lsm.keys.key_groups import taken
from pkray.lsm.keys.keys import NormalizedKeys
from pkray.schema.table_schema import TableSchema


class PartialUpdate(FieldwiseEngine):
    """The last value of each column that is not null, or what its sequence group says.

    -U and -D: refused, unless ``ignore-delete`` is set, or
    ``partial-update.remove-record-on-delete`` (a -D removes the row, a -U does nothing), or there
    are sequence groups (which take back; columns outside of them stay).

    Source: ``fields.<sequence fields>.sequence-group``, ``fields.<field>.aggregate-function`` and
        ``fields.default-aggregate-function`` with sequence groups.

    Raises:
        UnsupportedError: a function that is not there.
    """

    def __init__(self, schema: TableSchema) -> None:
        super().__init__(schema)
        options = schema.core
        self.deletes_reset = options.deletes_reset
        self.drops_passing = self.deletes_reset
        self._ignores_retract = options.ignore_delete or self.deletes_reset
        functions = self.functions = self._aggregates(schema)
        self.images_replace = not self.deletes_reset and all(
            function.image_replaces for function in functions.values()
        )
        self._groups = [
            SequenceGroupMerger(group.sequence_fields, group.fields, functions)
            for group in options.sequence_groups
        ]
        grouped = {name for group in self._groups for name in group.columns}
        self._free = {name: functions.get(name) for name in self._names if name not in grouped}

    @staticmethod
    def _aggregates(schema: TableSchema) -> dict[str, AggregateFunction]:
        options = schema.core
        if not options.sequence_groups:
            return {}
        ordering = {name for group in options.sequence_groups for name in group.sequence_fields}
        functions = {}
        for field in schema.fields:
            name, of_field = field.name, options.of_field(field.name)
            function = of_field.aggregate_function
            if function is None and name not in ordering:
                function = options.default_aggregate_function
            if function is not None and name not in schema.primary_keys:
                functions[name] = aggregate_function(function, name, field.type, of_field)
        return functions

    def also_needed(self, columns: Sequence[str]) -> tuple[str, ...]:
        return tuple(
            name
            for group in self._groups
            if group.columns & set(columns)
            for name in group.sequence_fields
        )

    def _without_refused(self, rows: Segments) -> Segments:
        if self._ignores_retract:
            return rows.adds()
        if self._groups:
            return rows
        raise MergeError(
            "a partial-update table does not take -U and -D rows; set 'ignore-delete' = 'true' to "
            "drop them, 'partial-update.remove-record-on-delete' = 'true' for a -D to remove the "
            "row, or sequence groups to take columns back",
            merge_engine="partial-update",
        )

    def _merge_columns(
        self, rows: pa.RecordBatch, selected: Selected, last: pa.Array
    ) -> dict[str, pa.Array]:
        merged: dict[str, pa.Array] = {}
        adds = selected.rows.adds()
        for name, function in self._free.items():
            position = rows.schema.get_field_index(name)
            if position < 0:
                continue
            column = rows.column(position)
            if function is not None:
                merged[name] = merge_column(function, column, adds, selected)
            elif column.null_count or adds is not selected.rows:
                merged[name] = take_valid(column, adds.numbers(adds.last_valid(column)))
            else:
                merged[name] = taken(column, last)
        for group in self._groups:
            merged |= group.merge(rows, selected)
        return merged


_SPAN = 1 << 62


class SequenceGroupMerger:
    """The row whose sequence fields are largest gives the columns, nulls included.

    Rows whose sequence fields are all null do not count. Of equal ones the later counts; null is
    smaller than any value. -U and -D set the columns to null, unless they are older. Columns with
    an aggregate function also merge late rows, before what is there already; collect after it,
    unless it ignores what takes back.

    Functions of the first value take a late row's instead, but for the one that begins: of
    first_value nothing is left of that, for first_non_null_value its value stands until one comes
    in order, or over the next late row.
    """

    def __init__(
        self,
        sequence_fields: Sequence[str],
        fields: Sequence[str],
        functions: Mapping[str, AggregateFunction],
    ) -> None:
        self.sequence_fields = tuple(sequence_fields)
        self.columns = frozenset((*sequence_fields, *fields))
        self._functions = {name: functions[name] for name in fields if name in functions}
        self._replaced = [name for name in fields if name not in self._functions]

    def merge(self, rows: pa.RecordBatch, selected: Selected) -> dict[str, pa.Array]:
        """Merge the columns of this group that ``rows`` has."""
        present = set(rows.schema.names)
        wanted = self.columns & present
        if not wanted:
            return {}
        columns = {name: rows.column(name) for name in self.columns & present}
        segments = self._that_count([columns[name] for name in self.sequence_fields], selected)
        if not len(segments):
            return {
                name: keep_asis(pa.nulls(segments.keys, column.type), column, selected)
                for name, column in columns.items()
            }
        in_order = _in_order([columns[name] for name in self.sequence_fields], segments)
        places = segments.last_place(in_order)
        chosen = segments.numbers(places)
        valued = chosen
        if segments.retract is not None:
            valued = segments.numbers(np.where(segments.retract[places], -1, places))
        merged = {}
        for name in self.sequence_fields:
            merged[name] = keep_asis(take_numbers(columns[name], chosen), columns[name], selected)
        for name in self._replaced:
            if name in columns:
                values = take_numbers(columns[name], valued)
                merged[name] = keep_asis(values, columns[name], selected)
        late_first: Segments | None = None
        for name, function in self._functions.items():
            if name not in columns:
                continue
            if function.any_order or function.by_arrival:
                rows_of = segments
            elif function.knows_late:
                rows_of = segments if in_order.all() else replace(segments, late=~in_order)
            elif function.skips_late:
                back = segments.retract
                rows_of = segments.pick(in_order if back is None else in_order | back)
            elif function.late_replaces:
                rows_of = _first_or_late(segments, in_order, columns[name], function)
            elif segments.retract is not None and not function.ignores_retract:
                rows_of = _late_first_since_back(segments, in_order, columns[name])
            else:
                late_first = late_first or _late_first(segments, in_order)
                rows_of = late_first
            merged[name] = keep_asis(function(columns[name], rows_of), columns[name], selected)
        return merged

    @staticmethod
    def _that_count(sequence: Sequence[pa.Array], selected: Selected) -> Segments:
        """Leave out rows whose sequence fields are all null."""
        rows = selected.rows
        if all(column.null_count for column in sequence):
            valid = np.zeros(len(rows.order), bool)
            for column in sequence:
                valid |= valid_at(column, rows.order)
            rows = rows.pick(valid)
        takes_back = rows.retract is not None and rows.retract.any()
        return rows if takes_back else rows.adds()


def _in_order(sequence: Sequence[pa.Array], rows: Segments) -> Bools:
    """Flag each place whose sequence is not less than that of any row before."""
    numbers = pa.array(rows.order)
    keys = NormalizedKeys([taken(column, numbers) for column in sequence])
    rank, exact = keys.prefix()
    low, high = int(rank.min()), int(rank.max())
    if not exact or (high - low + 1) * len(rows) >= _SPAN:
        rank, low, high = _ranks(keys)
    height = rank.astype(np.int64) - low if low >= -_SPAN and high < _SPAN else None
    if height is None:
        rank, low, high = _ranks(keys)
        height = rank
    height = height + rows.of_place() * (high - low + 1)
    return height == np.maximum.accumulate(height)


def _ranks(keys: NormalizedKeys) -> tuple[Ints, int, int]:
    order, starts = keys.sort()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(order)))
    return ranks, 0, max(len(starts) - 1, 0)


def _late_first(rows: Segments, in_order: Bools) -> Segments:
    """Arrange late rows before what was there when they came, the latest first.

    Rows that take back are left out.
    """
    if rows.retract is not None:
        in_order, rows = in_order[~rows.retract], rows.adds()
    if in_order.all():
        return rows
    place = np.arange(len(rows.order))
    return rows.arranged(np.lexsort((np.where(in_order, place, -place), rows.of_place())))


def _late_first_since_back(rows: Segments, in_order: Bools, column: pa.Array) -> Segments:
    """Arrange as `_late_first`, with rows that take back: late rows stay after those.

    That is for functions for which nothing is left once a value is taken back; taking back a null
    does nothing.
    """
    back = np.zeros(len(rows.order), np.bool_) if rows.retract is None else rows.retract
    counts = ~back | valid_at(column, rows.order)
    rows, back, late = rows.pick(counts), back[counts], (~in_order & ~back)[counts]
    place = np.arange(len(rows.order))
    epoch = np.cumsum(back) * 2 - back
    return rows.arranged(np.lexsort((np.where(late, -place, place), epoch, rows.of_place())))


def _first_or_late(
    rows: Segments, in_order: Bools, column: pa.Array, function: AggregateFunction
) -> Segments:
    """Pick of each key the row that gives the value: the first, or the last late one after it.

    Rows that take back are left out or, where the function refuses them, stay.
    """
    if rows.retract is not None and function.ignores_retract:
        in_order, rows = in_order[~rows.retract], rows.adds()
    if rows.retract is not None or in_order.all():
        return rows
    place, late = np.arange(len(rows.order)), ~in_order
    if function.skips_nulls:
        valid = valid_at(column, rows.order)
        first = rows.first_place(in_order & valid)
        early = rows.first_place(late & valid)
        over = rows.first_place(late & (place > np.repeat(early, rows.sizes)))
        begin, chosen = np.minimum(first, over), np.where(first < over, first, early)
        chosen[chosen == len(place)] = -1
    else:
        begin, chosen = rows.starts, np.where(in_order[rows.starts], rows.starts, -1)
    replacing = rows.last_place(late & (place > np.repeat(begin, rows.sizes)))
    return rows.pick(place == np.repeat(np.maximum(chosen, replacing), rows.sizes))
