"""Random queries over random tables, each answered in several ways that must agree.

::

    seed ──▶ tables ──▶ query ──▶ oracles
             tables.py  expressions.py, queries.py   oracles.py

`tables` holds rows of every kind of column. `expressions` grows typed expressions from templates;
`queries` grows queries around them, step by step. Both write Spark's SQL, and DuckDB's beside it
where DuckDB means the same. `oracles` says how answers are compared. ``python -m
tests.integration.relational.random_queries SEED`` replays one and prints its SQL and tables.
"""
