"""Turn what owners prepare into snapshots, one commit at a time.

The `Coordinator` sees metadata alone. A commit whose name is in the snapshots is answered, not made
again. Otherwise `TwoPhaseCommit` has all owners prepare on one base, publishes through a
`Committer`, and tells them; where others added rows to the same buckets it does so once more.
`WriterFencing` numbers the writers of each commit user and refuses all but the newest. `Committers`
keeps one committer a user. The `CommitQueue` lets processes of a machine take turns, which saves
work and is needed for nothing else. `TableMaintenance` expires snapshots, tags and partitions after
commits. All that it knows is read again after a restart: killed before the snapshot is created, it
leaves manifests that nothing names, and the commit is repeated under its name; killed after it, the
name is found. .design/0003 has the order of locks.
"""
