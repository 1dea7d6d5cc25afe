"""Where the rows of a plan come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.plan.expressions import Expression
from pkray.relational.plan.fields import Fields


@dataclass(frozen=True)
class Watermark:
    """Says how far time has come: `expression` of a row whose time is in `column`."""

    column: str
    expression: Expression
    text: str


@runtime_checkable
class Source(Protocol):
    """Rows that a query reads.

    Attributes:
        name: as people name it: ``shop.orders``; in explanations and errors.
        fields: all its columns.
        primary_key: which columns tell rows apart; empty where nothing does.
        mode: which changes it gives: ``insert``, ``upsert`` (no before-images) or ``all``.
        watermark: None where none is declared.
        filters_exactly: whether `batches` leaves out exactly the rows for which the condition is
            not true.
    """

    name: str
    primary_key: tuple[str, ...]
    mode: str
    watermark: Watermark | None
    filters_exactly: bool

    @property
    def fields(self) -> Fields: ...

    def row_count(self) -> int | None:
        """Count rows, about; None where that is not known without reading."""

    def batches(
        self, columns: Sequence[str], condition: pc.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read rows in batches, `columns` in their order, types as `fields` say."""
