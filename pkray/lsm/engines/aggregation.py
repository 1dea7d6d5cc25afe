"""Every column is merged by its aggregate function."""

import pyarrow as pa

from pkray.lsm.engines.fieldwise import FieldwiseEngine, Selected, merge_column
from pkray.lsm.engines.functions import aggregate_function
from pkray.lsm.engines.functions.arithmetic import Count
from pkray.lsm.engines.segments import Segments
from pkray.schema.table_schema import TableSchema

DEFAULT_FUNCTION = "last_non_null_value"


class Aggregation(FieldwiseEngine):
    """Source: ``fields.<field>.aggregate-function``, ``fields.default-aggregate-function``,
    ``aggregation.remove-record-on-delete``.

    Sequence fields keep their last value that is not null.

    Raises:
        UnsupportedError: a function that is not there.
    """

    def __init__(self, schema: TableSchema) -> None:
        super().__init__(schema)
        options = schema.core
        self.deletes_reset = options.deletes_reset
        for name in self._names:
            of_field = options.of_field(name)
            default = options.default_aggregate_function or DEFAULT_FUNCTION
            function = of_field.aggregate_function or default
            if name in options.sequence_field:
                function = DEFAULT_FUNCTION
            self.functions[name] = aggregate_function(
                function, name, schema.field(name).type, of_field
            )
        self.images_replace = not self.deletes_reset and all(
            function.image_replaces for function in self.functions.values()
        )
        self._counted = [
            name for name, function in self.functions.items() if isinstance(function, Count)
        ]

    def incoming(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Turn values to be counted into ones and zeros."""
        for name in self._counted:
            position = rows.schema.get_field_index(name)
            counts = Count.as_counts(rows.column(position))
            rows = rows.set_column(position, rows.schema.field(position), counts)
        return rows

    def _without_refused(self, rows: Segments) -> Segments:
        return rows

    def _merge_columns(
        self, rows: pa.RecordBatch, selected: Selected, last: pa.Array
    ) -> dict[str, pa.Array]:
        return {
            name: merge_column(self.functions[name], rows.column(name), selected.rows, selected)
            for name in rows.schema.names
            if name in self.functions
        }
