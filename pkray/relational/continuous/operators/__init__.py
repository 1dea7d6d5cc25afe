"""The operators of continuous queries, a family a module.

Each module puts its classes under the nodes that they compute (`pkray.relational.continuous.
operator.operates`); `load` imports them all. ``stateless`` has what remembers nothing; ``ranked``
rows by their number in an order; ``joins`` two sides.
"""

from __future__ import annotations

import importlib
from functools import cache

FAMILIES = (
    "joins",
    "ranked",
    "row_key",
    "stateless",
)


@cache
def load() -> None:
    """Import the operators, which say for which nodes they are."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
