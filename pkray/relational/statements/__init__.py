"""Statements: what ``catalog.sql`` does besides queries.

::

    text ──▶ sql.statements (what it says) ──▶ run_statement ┬▶ Relation     a query
                                                             ├▶ changing     INSERT … MERGE
                                                             └▶ definitions  CREATE, ALTER, SHOW

- **statement** (`statement.Statement`): INSERTs that run when they are told to.
- `changing`: rows change, each statement in one commit. `definitions`: tables, databases, views and
  settings change at once.
- `views`, `settings`: what a catalog keeps of queries. `listing`: the functions, as rows.
"""
