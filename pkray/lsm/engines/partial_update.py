"""Columns that are not null overwrite one by one."""

from collections.abc import Sequence

import pyarrow as pa

from pkray.errors import MergeError
from pkray.lsm.engines.fieldwise import FieldwiseEngine, Selected, merge_column
from pkray.lsm.engines.functions import AggregateFunction, aggregate_function
from pkray.lsm.engines.segments import Segments, take_valid
from pkray.lsm.engines.sequence_group import SequenceGroupMerger
from pkray.lsm.keys.key_groups import taken
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
