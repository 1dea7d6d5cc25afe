"""System tables, and what changed between two moments, as DataFrames: read by one task each, as
they are small or streamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from pkray.changelog.changes import Changes
from pkray.scan.moment import Moment
from pkray.scan.predicate import Predicate
from pkray.scan.split import arrow_schema
from pkray.schema.table_schema import TableSchema
from pkray.storage.location import TableLocation
from pkray.table.reads import Reads
from pkray.table.system_table import SystemTable

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


@dataclass(frozen=True)
class _WholeRequest:
    """Reads of a table that are not cut into splits."""

    location: TableLocation
    schema: TableSchema

    @property
    def table(self) -> str:
        return self.location.name

    def splits(self) -> list[Self]:
        return [self]

    def narrowed(self, _: Sequence[Filter]) -> Self:
        """Return the same request: Spark applies its filters itself."""
        return self


@dataclass(frozen=True)
class SystemRequest(_WholeRequest):
    """The part of a system table to read."""

    system: str
    columns: tuple[str, ...] | None
    filter: object
    at: Moment

    @property
    def arrow_schema(self) -> pa.Schema:
        return self.read().schema

    def read(self) -> pa.RecordBatchReader:
        """Read the system table."""
        table = SystemTable(Reads(self.location, self.schema), self.system)
        return table.to_batches(self.columns, self.filter, **self.at.named)


@dataclass(frozen=True)
class BetweenRequest(_WholeRequest):
    """The changes to read: the schema's options say which (``incremental-between``)."""

    columns: tuple[str, ...]
    predicate: Predicate | None

    @property
    def arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema, self.columns)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows that changed, one a key."""
        changes = Changes(self.location, self.location.open(), self.schema)
        yield from changes.rows_between(list(self.columns), self.predicate)
