"""The operators of continuous queries, a family a module.

Each puts its classes under the nodes that they compute
(`pkray.relational.continuous.operator.operates`); ``catalogue`` has them all, and says which one
computes a node. The other modules are what families are made of.

- ``stateless`` remembers nothing: each row by itself.
- ``aggregates/`` folds groups; ``sets`` counts equal rows.
- ``keyed`` keeps one row a key, refuses a second one, and makes a key where there is none;
  ``replacement`` gives the changes of rows of which there is one a key.
- ``joins/`` has all joins of changing sides, by interval, temporal and lookup joins.
- ``ranked`` numbers rows in an order (top-n, LIMIT, deduplication), ``over`` computes window
  functions (``carried``: from the row before); ``ordering`` is what both share.
- ``windows/`` has what waits for event time.
"""
