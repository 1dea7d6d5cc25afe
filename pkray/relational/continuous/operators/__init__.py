"""The operators of continuous queries, a family a module.

`FAMILIES` put their classes under the nodes that they compute
(`pkray.relational.continuous.operator.operates`); `load` imports them all. The other modules are
what families are made of.

- ``stateless`` remembers nothing: each row by itself.
- ``aggregate`` folds ``groups``: ``calls`` says how each function is computed, from
  ``accumulators`` (numbers), ``bags`` (values with their counts), ``held_rows`` or, where rows are
  only added, ``appended``.
- ``sets`` counts equal rows; ``normalize`` keeps one row a key; ``unique`` refuses a second one;
  ``row_key`` makes a key where there is none.
- ``joins``: by pairs of rows (``pairing``, ``join_pairs``, ``join_output``), or by numbers of
  matches alone (``membership``, ``null_membership``, ``key_counts``). Their ``join_sides`` are
  kept (``kept_sides``) or read from the source (``sourced_sides``). ``lookups`` join a side as it
  is.
- ``ranked`` numbers rows in an order (top-n, LIMIT, deduplication), ``over`` computes window
  functions (``carried``: from the row before); ``ordering`` is what both share.
- ``replacement`` gives the changes of rows of which there is one a key.
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
