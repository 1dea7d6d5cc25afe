"""Hold tables, without their queries: what ``pkray.api`` gives to users is made of it.

A `TableCatalog` is a warehouse; it opens, creates, renames and drops. `Table` reads, looks up,
follows changes and writes. It is made of parts: `Reads` (files alone: ``table.at(tag="v1")`` is a
`SnapshotView`, and the reads that take a snapshot as an argument are shorthands for one), `Changes`
of ``changelog``, `Lookups` and writers (a running service), and what is done to a table as a whole:
``table.tags``, ``table.rollback_to()`` and so on, by ``maintenance`` and ``expiration``.
`SystemTable` is what ``load_table("db.t$files")`` gives. Nothing is decided here: arguments are
checked and handed to ``scan``, ``changelog``, ``service`` and ``expiration``.
"""
