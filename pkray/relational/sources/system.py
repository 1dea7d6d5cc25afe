"""System tables as sources: ``shop.orders$snapshots``."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from pkray.relational.plan.expressions import Expression
from pkray.relational.plan.source import Source
from pkray.relational.sources.rows import conformed, fields_of
from pkray.scan.moment import LATEST, Moment
from pkray.table.system_table import SystemTable


class SystemSource(Source):
    """Reads what a table holds of itself.

    Args:
        at: a moment, as ``Table.system`` takes it.
    """

    def __init__(self, table: SystemTable, at: Moment = LATEST) -> None:
        self.table = table
        self.at = at
        self._found = table.arrow_schema
        self.fields = fields_of(self._found)
        self.name = table.name

    def __repr__(self) -> str:
        return f"SystemSource({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SystemSource) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def batches(
        self, columns: Sequence[str], condition: Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read rows; a condition leaves none out."""
        read = list(columns) or [self.fields.names[0]]  # without columns, rows would be lost
        wanted = self.fields.only(read)
        for batch in self.table.to_batches(read, **self.at.named):
            rows = conformed(pa.Table.from_batches([batch]), wanted)
            yield from rows.select(list(columns)).to_batches()

    def _identity(self) -> tuple[object, ...]:
        return (self.table.table.location.url, self.name, self.at)
