"""The binder: syntax becomes a plan whose names are found and whose types are given.

::

    Binder.query ──▶ set operations, WITH ──▶ select ┬▶ from_clause           FROM
                                                     ├▶ outputs, clauses      SELECT, hints
                                                     ├▶ group_by, grouping    GROUP BY
                                                     ├▶ over                  OVER
                                                     ├▶ order_by              ORDER BY, LIMIT
                                                     ├▶ subqueries            EXISTS, IN
                                                     └▶ patterns              top-n and so on

`select_state` is one SELECT while it is bound; what binds its parts are functions over it. `scope`
has the names in sight and the rows behind them, `context` what all queries of a text share.
Expressions are bound by `sql.expressions`, which asks here for subqueries, aggregates and windows.
"""
