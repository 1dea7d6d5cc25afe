"""System tables as DataFrames: read by one task, as they are small or streamed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from pkray.scan.moment import Moment
from pkray.schema.table_schema import TableSchema
from pkray.storage.location import TableLocation
from pkray.table.reads import Reads
from pkray.table.system_table import SystemTable

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


@dataclass(frozen=True)
class SystemRequest:
    """The part of a system table to read."""

    location: TableLocation
    schema: TableSchema
    system: str
    columns: tuple[str, ...] | None
    filter: object
    at: Moment

    @property
    def table(self) -> str:
        return self.location.name

    @property
    def arrow_schema(self) -> pa.Schema:
        return self.read().schema

    def splits(self) -> list[SystemRequest]:
        return [self]

    def narrowed(self, _: Sequence[Filter]) -> SystemRequest:
        """Return the same request: Spark applies its filters itself."""
        return self

    def read(self) -> pa.RecordBatchReader:
        """Read the system table."""
        table = SystemTable(Reads(self.location, self.schema), self.system)
        return table.to_batches(self.columns, self.filter, **self.at.named)
