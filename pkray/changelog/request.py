"""Say what is wanted of changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from pkray.scan.predicate import Predicate
from pkray.scan.split import arrow_schema
from pkray.schema import row_kind
from pkray.schema.columns import filter_rows
from pkray.schema.default_values import with_defaults
from pkray.schema.table_schema import KIND, TableSchema
from pkray.storage.location import TableLocation
from pkray.storage.object_store import ObjectStore

ROW_KIND, SNAPSHOT_ID = "_row_kind", "_snapshot_id"


@dataclass(frozen=True)
class ChangeRequest:
    """Columns of changed rows, and which of the rows; it pickles.

    Args:
        location: where the table is; None where whoever reads has its store.
        schema: under which rows are read, whatever the table became meanwhile.
        columns: value columns, in the order wanted.
        predicate: changes whose rows do not meet it are left out, each by itself.
    """

    location: TableLocation | None
    schema: TableSchema
    columns: tuple[str, ...]
    predicate: Predicate | None = None

    @classmethod
    def from_arguments(
        cls,
        location: TableLocation | None,
        schema: TableSchema,
        columns: Sequence[str] | None = None,
        filter: object = None,
    ) -> Self:
        """Check the columns and the filter that a user gave.

        Raises:
            InputError: a column the table does not have, or a filter that is not understood.
        """
        names = arrow_schema(schema, columns).names
        predicate = None if filter is None else Predicate.parse(filter, schema)
        return cls(location, schema, tuple(names), predicate)

    @property
    def arrow_schema(self) -> pa.Schema:
        """``_row_kind``, ``_snapshot_id``, then the columns."""
        kinds = pa.field(ROW_KIND, pa.string(), nullable=False)
        ids = pa.field(SNAPSHOT_ID, pa.int64(), nullable=False)
        fields = [self.schema.arrow_schema.field(name) for name in self.columns]
        return pa.schema([kinds, ids, *fields])

    @property
    def needed(self) -> list[str]:
        """The value columns that have to be read for it."""
        wanted = {*self.columns, *(self.predicate.columns if self.predicate else ())}
        return [name for name in self.schema.names if name in wanted]

    def open(self) -> ObjectStore:
        """Open the table's root."""
        assert self.location is not None, "whoever reads passes the store"
        return self.location.open()

    def labelled(
        self, rows: pa.RecordBatch, snapshot_id: int, kind: int | None = None
    ) -> pa.RecordBatch:
        """Filter rows, and put ``_row_kind`` and ``_snapshot_id`` before the columns asked for.

        Args:
            rows: the columns of `needed`, and ``_VALUE_KIND`` unless ``kind`` is given.
            kind: of all rows.
        """
        rows = with_defaults(rows, self.schema.default_values)
        if self.predicate is not None:
            rows = filter_rows(rows, self.predicate.to_expression())
        count = rows.num_rows
        if kind is None:
            kinds = row_kind.names(rows.column(KIND))
        else:
            kinds = pa.repeat(row_kind.SHORT[kind], count)
        ids = pa.array(np.full(count, snapshot_id, np.int64))
        values = [rows.column(name) for name in self.columns]
        return pa.RecordBatch.from_arrays([kinds, ids, *values], schema=self.arrow_schema)
