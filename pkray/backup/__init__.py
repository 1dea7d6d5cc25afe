"""Keep copies of a warehouse: made beside writers, proved without restoring, restored elsewhere.

::

    warehouse ──▶ create ──▶ backup store ──▶ restore ──▶ warehouse
                                  └──▶ verify

A backup is what tables, views and queries were at a moment. Its store holds::

    backups/<name>/backup.json        written last: the backup is there once this is
    backups/<name>/<number>.parquet   the files of one table or query, and the content of small ones
    files/<unit>/<path>               files that are never rewritten, shared by all backups
    turns/turn-<number>               who changes the store
    identity                          tells the store from others

- A **unit** (``unit``) is a table or a query. Those of its files that are named once and never
  rewritten, such as data files and manifests, are copied once into the unit's folder: the next
  backup finds them there. All others, such as snapshots and schemas, are small; their content
  stands in the list itself.
- A table's unit is named by the table's identity: another table of its name shares nothing.
- `TableCopy` (``table_files``) reads a unit as if it were a table, so that what a backup lacks is
  found by the code that reads tables.
- Of a running query a savepoint is made first, and tables are copied after it: they hold all that
  the savepoint names. A restored query stands still, as an incarnation of its own that begins with
  the savepoint.
- A restored table has another identity than the one that was copied: caches, writers and queries of
  that one take it for another table.
- **Turns** (``turns``): one process at a time changes a store; one that was killed is passed over
  after some minutes. What a backup keeps from expiring bears the store's identity, so that who has
  the turn lets go what was kept for one that was killed.
"""
