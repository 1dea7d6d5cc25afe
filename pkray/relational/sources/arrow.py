"""Rows in memory as a source."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational import outcome
from pkray.relational.plan.expressions import Expression
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.source import ColumnStatistics, Source
from pkray.relational.sources.rows import as_table, conformed, fields_of

_UNORDERED = ("is_nested", "is_boolean", "is_null")


class ArrowSource(Source):
    """Rows that are held in memory: a literal of a query.

    Args:
        name: as explanations say it.
        data: as `as_table` takes it.

    Raises:
        InputError: it is no rows.
        UnsupportedError: a column's type is none that columns have.
    """

    def __init__(self, name: str, data: object) -> None:
        rows, spans = outcome.taken(as_table(data))
        read = fields_of(rows.schema)
        self.fields = Fields(
            tuple(replace(each, type=spans.get(each.name, each.type)) for each in read)
        )
        self.rows = conformed(rows, self.fields)
        self.name = name

    def __repr__(self) -> str:
        return f"ArrowSource({self.name!r}, {self.rows.num_rows} rows)"

    def row_count(self) -> int:
        """Count the rows."""
        count: int = self.rows.num_rows
        return count

    def statistics(self, column: str) -> ColumnStatistics:
        """Find the bounds of a column."""
        values = self.rows.column(column)
        if any(getattr(pa.types, test)(values.type) for test in _UNORDERED):
            return ColumnStatistics(nulls=values.null_count)
        bounds = pc.min_max(values).as_py()
        return ColumnStatistics(bounds["min"], bounds["max"], values.null_count)

    def batches(
        self, columns: Sequence[str], condition: Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Give the rows as they are held; a condition leaves none out."""
        yield from self.rows.select(list(columns)).to_batches()
