"""Queries as text: parsed, bound to plans, and written back.

::

    text ─▶ parser ─▶ syntax ─▶ binder ─▶ plan
                        ▲  │      └─▶ expressions   all that is scalar
                Methods ┘  └─▶ statements           INSERT, CREATE … as data

- **syntax**: a tree of sqlglot, in one of two dialects (`dialects`); functions stay as they are
  written. `places` says in errors where a part of it stands.
- **names** (`Names`): what tables, views and users' functions there are; the only thing that is
  asked from outside.
- **rows** (`binder.scope.Rows`): a plan that grows while one SELECT is bound. Columns that it
  computes get hidden names (``$k0``), and the last projection leaves them out.
- **scope** (`binder.scope.Scope`): the columns that names stand for, over rows.
- **correlation** (`binder.scope.Correlation`): what a subquery sees of the query around it. A
  reference to that (`binder.scope.OuterRef`) becomes an equality or a condition of the join that
  the subquery becomes. Where it cannot, the subquery is bound once more over its *domain*: the
  distinct values that the column has in the query around.
"""
