"""Read what changed between two moments of a table as a DataFrame: by one task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from pkray.changelog.changes import Changes
from pkray.scan.predicate import Predicate
from pkray.scan.split import arrow_schema
from pkray.schema.table_schema import TableSchema
from pkray.storage.location import TableLocation

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


@dataclass(frozen=True)
class BetweenRequest:
    """The changes to read: the schema's options say which (``incremental-between``)."""

    location: TableLocation
    schema: TableSchema
    columns: tuple[str, ...]
    predicate: Predicate | None

    @property
    def table(self) -> str:
        return self.location.name

    @property
    def arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema, self.columns)

    def splits(self) -> list[BetweenRequest]:
        return [self]

    def narrowed(self, _: Sequence[Filter]) -> BetweenRequest:
        """Return the same request: Spark applies its filters itself."""
        return self

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows that changed, one a key."""
        changes = Changes(self.location, self.location.open(), self.schema)
        yield from changes.rows_between(list(self.columns), self.predicate)
