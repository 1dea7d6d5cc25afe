"""Options of what queries take a table's columns for."""

import re
from dataclasses import dataclass

from pkray.options.option import option
from pkray.options.values import STRING

COMPUTED_KEY = re.compile(
    r"(pkray\.)?schema\.\d{1,6}\.(name|data-type|expr|comment|metadata|virtual)"
)
"""Keys of what says a computed column; ``pkray.`` is before what other engines cannot read."""


@dataclass(frozen=True)
class QueryOptions:
    """Options of the watermark that a table declares, under Paimon's keys.

    One that follows computed columns which other engines cannot read is after ``pkray.``.
    """

    watermark_column: str | None = option(
        "schema.watermark.0.rowtime",
        STRING,
        None,
        "Time column that watermarks follow.",
        aliases=("pkray.schema.watermark.0.rowtime",),
    )
    watermark_expression: str | None = option(
        "schema.watermark.0.strategy.expr",
        STRING,
        None,
        "What gives the watermark of a row, in SQL; the column itself if unset.",
        aliases=("pkray.schema.watermark.0.strategy.expr",),
    )
    watermark_type: str | None = option(
        "schema.watermark.0.strategy.data-type",
        STRING,
        None,
        "Type of the watermark.",
        aliases=("pkray.schema.watermark.0.strategy.data-type",),
    )
