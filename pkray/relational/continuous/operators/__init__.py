"""The operators of continuous queries, a family a module.

`FAMILIES` put their classes under the nodes that they compute
(`pkray.relational.continuous.operator.operates`); `load` imports them all. The other modules are
what families are made of.

- ``stateless`` remembers nothing: each row by itself.
- ``aggregates/`` folds groups; ``sets`` counts equal rows.
- ``normalize`` keeps one row a key, ``unique`` refuses a second one, ``row_key`` makes a key where
  there is none; ``replacement`` gives the changes of rows of which there is one a key.
- ``joins/`` has all joins of changing sides, by interval, temporal and lookup joins.
- ``ranked`` numbers rows in an order (top-n, LIMIT, deduplication), ``over`` computes window
  functions (``carried``: from the row before); ``ordering`` is what both share.
- ``windows/`` has what waits for event time.
"""

from __future__ import annotations

import importlib
from functools import cache

FAMILIES = (
    "aggregates.aggregate",
    "joins.joins",
    "joins.intervals",
    "joins.lookups",
    "joins.temporal",
    "normalize",
    "over",
    "ranked",
    "row_key",
    "sets",
    "stateless",
    "unique",
    "windows.bounded",
    "windows.first_rows",
    "windows.over_in_time",
    "windows.sessions",
    "windows.slice_aggregate",
    "windows.updated_windows",
    "windows.window_aggregate",
)


@cache
def load() -> None:
    """Import the operators, which say for which nodes they are."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
