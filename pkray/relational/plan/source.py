"""Define what a source of rows offers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import pyarrow as pa

from pkray.relational.plan.expressions import Expression
from pkray.relational.plan.fields import Fields
from pkray.scan.moment import LATEST, Moment


@dataclass(frozen=True)
class Watermark:
    """Says how far time has come: `expression` of a row whose time is in `column`."""

    column: str
    expression: Expression
    text: str


@dataclass(frozen=True)
class ColumnStatistics:
    """Estimates the values of a column without reading them; None where nothing is known.

    Attributes:
        least, greatest: bounds of the values, not always reached.
        nulls: NULLs, about.
    """

    least: Any = None
    greatest: Any = None
    nulls: int | None = None


@runtime_checkable
class Source(Protocol):
    """Rows that a query reads.

    Attributes:
        name: as people name it: ``shop.orders``; in explanations and errors.
        fields: all its columns.
        primary_key: which columns tell rows apart; empty where nothing does.
        mode: which changes it gives: ``insert``, ``upsert`` (no before-images) or ``all``.
        watermark: None where none is declared.
        at: the moment of a table that the query names.
    """

    name: str
    fields: Fields
    primary_key: tuple[str, ...] = ()
    mode: str = "insert"
    watermark: Watermark | None = None
    at: Moment = LATEST

    @property
    def read_names(self) -> tuple[str, ...]:
        """Name the columns that queries read: beside `fields` those that are computed of them."""
        return self.fields.names

    @property
    def time_column(self) -> str | None:
        """Name the column whose times a declared watermark follows; None where none is."""
        return None if self.watermark is None else self.watermark.column

    @property
    def is_kept(self) -> bool:
        """Whether rows can be looked up as they are when a row of another source is handled."""
        return False

    @property
    def begins_late(self) -> bool:
        """Whether continuous reads begin with changes, without the rows that are there."""
        return False

    def row_count(self) -> int | None:
        """Count rows, about; None where that is not known without reading."""
        return None

    def statistics(self, column: str) -> ColumnStatistics:
        """Say what is known of a column without reading it."""
        return ColumnStatistics()

    def remaining(self, condition: Expression) -> Expression:
        """Give what of a condition is still to be checked on the rows that `batches` gives for
        it; `TRUE` where it leaves out exactly the rows for which the condition is not true.
        """
        return condition

    def completed(self) -> Self:
        """Give the source with content in which changes that came twice count once."""
        return self

    def finds_by(self, columns: Sequence[str]) -> bool:
        """Whether rows are found by these columns at any snapshot that is read, without a scan."""
        return False

    def batches(
        self, columns: Sequence[str], condition: Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read rows in batches, `columns` in their order, types as `fields` say.

        Args:
            condition: over `fields`: rows for which it is not true may be left out.
        """
