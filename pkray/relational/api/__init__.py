"""Turn what people write in Python into syntax: columns, groups, windows and methods.

::

    rel.filter(rel.x > 1) ──▶ Column ──▶ syntax ─┐
                    Relation ──▶ composing ──────┴▶ SELECT … FROM (the relation) ──▶ sql.binder

- **relation** (`Queried`): a bound query that methods build on; `Relation` is in ``pkray.api``.
- **column** (`column.Column`): an expression over the relation that a method belongs to; `func` has
  the functions, `windows` the windows of time, `grouped` the groups of a relation.
- `composing` writes a query around a query. Methods that take more than a line of SQL are written
  by ``joining``, ``missing``, ``sampling`` and ``rewriting``.
"""
