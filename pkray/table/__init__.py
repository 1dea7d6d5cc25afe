"""Hold tables: what a user of the Python API has in hand.

A `Catalog` is a warehouse; it opens, creates, renames and drops. `Table` reads, looks up, follows
changes and writes; its parts build on each other: `ReadableTable` (files alone), `StreamableTable`
(changes), `LookupTable` (a running service), `Table` (writers). What is done to a table beyond that
hangs on it as ``table.tags``, ``table.alter`` and so on (``maintenance``). `SystemTable` is what
``load_table("db.t$files")`` gives. Nothing is decided here: arguments are checked and handed to
``scan``, ``changelog``, ``service`` and ``expiration``.
"""
