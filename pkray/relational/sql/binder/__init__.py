"""The binder: syntax becomes a plan whose names are found and whose types are given.

::

    Binder.query ──▶ set operations, WITH ──▶ select ┬▶ from_clause           FROM
                                                     ├▶ grouping, over        GROUP BY, OVER
                                                     ├▶ subqueries            EXISTS, IN
                                                     └▶ patterns              top-n and so on

`scope` has the names in sight and the rows behind them, `context` what the parts share while one
query is bound. Expressions are bound by `sql.expressions`, which asks here for subqueries,
aggregates and windows.
"""
