"""The operators of continuous queries, a family a module.

Each module puts its classes under the nodes that they compute (`pkray.relational.continuous.
operator.operates`); `load` imports them all. ``stateless`` has what remembers nothing; ``ranked``
rows by their number in an order, ``over`` window functions; ``joins`` two sides; ``lookups`` a side
as it is; ``aggregate`` folds groups (``calls`` says how), ``sets`` counts rows, ``normalize`` keeps
one a key. ``groups`` and ``replacement`` are what these begin and end with.
"""

from __future__ import annotations

import importlib
from functools import cache

FAMILIES = (
    "aggregates.aggregate",
    "joins.joins",
    "joins.lookups",
    "normalize",
    "over",
    "ranked",
    "row_key",
    "sets",
    "stateless",
    "unique",
)


@cache
def load() -> None:
    """Import the operators, which say for which nodes they are."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
