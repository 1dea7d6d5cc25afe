"""Own buckets: take their rows, prepare their commits, answer their lookups.

::

    push ─▶ OwnerSessions ─▶ OwnerSession ─┬─ StagingArea: attempts of tasks, until they count
                                           └─ BucketWriter a bucket; AppliedBatches: each once
    prepare ─▶ OwnerCommits ─▶ CommitPreparation ─▶ CommitMessage a bucket
    lookup ──▶ OwnerLookups ─▶ BucketLookup: committed files, flushed files, memtables

`BucketOwner` is the whole, and what others call. An `OwnerSession` is one writer's uncommitted
work; a duplicate batch stops there, an older writer at `OwnerSessions`. Messages that were handed
over are in doubt until somebody says what became of them; `InDoubtCommits` finds it out from the
snapshots where nobody does, so that lookups count no row twice. `SnapshotRefresher` moves the owner
on to what others commit, `OwnedBuckets` opens writers under the newest schema, `ReadContexts` has
what reads under a schema need, `CopyEviction` lets unused local copies go.
"""
