"""Gives users what they hold: a catalog, its tables, relations, statements and queries.

::

    connect(…) ──▶ Catalog ──▶ Table ──▶ Relation ──▶ Query
                      └──────── sql() ──────┘

Each is a class over one of a lower layer, which does the work and knows nothing of what is above:
`Catalog` over ``pkray.relational.catalog.Catalog`` and `TableCatalog`, `Table` over
``pkray.table.table.Table``. `pkray` and ``pkray.relational`` list the names.

- **catalog** (``catalog``): tables, databases, views and queries by name; ``sql()``.
- **table** (``table``): with ``relation()``; changes that take SQL are in ``alter``.
- **relation** (``relation``): a lazy query with the methods that go on from it; ``inputs`` makes
  relations of rows, changes and texts.
- **statement** (``statement``): reads a statement of SQL and does it, or holds an INSERT.
- **plan** (``plan``): a query as JSON, run or compared with another one.
- **service** (``service``): the processes on Ray, started, watched, moved and stopped.
- **backups** (``backups``): copies of the warehouse, made, proved and restored.
- **query** (``query``): a continuous query that is watched, stopped, proved and upgraded.
"""
