"""Tell what changed: in one snapshot, between two, or as a stream without end.

::

    Changes ──▶ ChangelogReader, ChangeStream, ChangesBetween
                     │  ChangePlanner: from snapshots to splits
                     ▼
                ChangeSplit.read ──▶ batches of _row_kind, _snapshot_id and columns

`Changes` is what a table asks. `ChangeHistory` knows which snapshots can still be read, those whose
changelog outlived them included. The `ChangePlanner` makes splits, each read by one task in bounded
memory: of changelog files where the table has a changelog producer, else of the rows that writers
added. Where complete changes are wanted and none were saved, rows are looked up before and after
or two states of a partition are compared (``splits``). `ChangeStream`
waits for new snapshots, and `Progress` keeps its place under a consumer's name.
"""
