"""Publish a set of files as a snapshot, once and whole.

::

    CommitMessage ──▶ Committable ──▶ Change ──▶ Publisher ─┬─ CommitChecks: does it still fit?
    (one a bucket)     (one name)     (one        ▲         └─ Attempt: manifests, then the snapshot
                                      snapshot)   └── again, where others were faster

The `Committer` publishes for one commit user. What is to be committed under one identifier is a
`Committable`; it makes up to two `Change`: APPEND for new rows, COMPACT for compactions. The
`Publisher` puts a change on top of the newest snapshot. `CommitChecks` refuse it where others have
changed what it builds on (``conflicts``, ``checks``) or another writer took over
(`WriterFences`). An `Attempt` writes manifests and creates the snapshot file, which decides the
race; a lost answer is found again by the snapshot's uuid. `TableState` is what a committer knows of
its table. Nothing here reads or writes rows.
"""
