"""Read what is stored about a table: snapshots, schemas, tags, consumers, manifests.

A store a kind of file, over an `ObjectStore`: `SnapshotStore`, `SchemaStore`, `TagStore`,
`ConsumerStore`, `ChangelogStore`. They keep what never changes and notice what may have: a
rollback, an expiry, another table in the place of this one (`TableIdentity`). ``live`` gives the
data files of a snapshot. What was decoded stays in memory, within the bytes of the process's
`MetadataCache`, until its file is deleted (``manifest_cache``). `CommitHistory` says which commits
of a user happened, by their names (``commit_name``). `SnapshotStore.create` publishes: it is true
for one of all who try.
"""
