"""Options of what queries take a table's columns for."""

from __future__ import annotations

from dataclasses import dataclass

from pkray.options.option import option
from pkray.options.values import STRING


@dataclass(frozen=True)
class QueryOptions:
    """Options of the watermark that a table declares, under Paimon's keys."""

    watermark_column: str | None = option(
        "schema.watermark.0.rowtime", STRING, None, "Time column that watermarks follow."
    )
    watermark_expression: str | None = option(
        "schema.watermark.0.strategy.expr",
        STRING,
        None,
        "What gives the watermark of a row, in SQL; the column itself if unset.",
    )
    watermark_type: str | None = option(
        "schema.watermark.0.strategy.data-type", STRING, None, "Type of the watermark."
    )
