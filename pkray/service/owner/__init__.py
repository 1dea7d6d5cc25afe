"""Own buckets: take their rows, prepare their commits, answer their lookups.

::

    push ─▶ OwnerSessions ─▶ OwnerSession ─┬─ StagingArea: attempts of tasks, until they count
                                           └─ BucketWriter a bucket; AppliedBatches: each once
    prepare ─▶ OwnerCommits ─▶ CommitPreparation ─▶ PreparedCommit: a CommitMessage a bucket
    lookup ──▶ OwnerLookups ─▶ BucketLookup: committed files, flushed files, memtables

`BucketOwner` is the whole, and what others call. An `OwnerSession` is one writer's uncommitted
work; a duplicate batch stops there, an older writer at `OwnerSessions`. `PreparedCommit` is the
state machine of what a session has prepared and handed over. Where nobody says what became of that,
`InDoubtCommits` finds it out from the snapshots, so that lookups count no row twice.
`SnapshotRefresher` moves the owner on to what others commit, `OwnedBuckets` opens writers under the
newest schema, `ReadContexts` has what reads under a schema need, `CopyEviction` lets unused local
copies go.

The order in which locks are taken, here and around: whoever holds one waits for none above it.

::

    1   WriterSession.lock                in the client: a push or a commit of one writer
    2   Coordinator._maintenance_lock          maintenance; tried, never waited for
    3   Coordinator._lock                 one commit
    4   CommitQueue.turn                  a file of this machine: one round; passed after 5 s
    5   OwnerCommits._preparing           one `prepare` at an owner
    6   OwnerSession.exclusive            writing rows; may be long
    7   OwnerSessions.lock                moments; under it 6 is only tried
    8   Compactions._changed, BucketAssigner._lock, KeyAssigner._lock, StagedPushes._lock
                                          moments; assigners read the table
    9   CommittedFiles._lock, SchemaCache._lock, CompactionAge._lock, then SnapshotStore._lock
                                          reading metadata
    10  PreparedCommit._lock, CacheEntry.lock, then LocalFileCache._lock, FlushedRowsCache._lock,
        Memtable._lock, Pulse._lock, DebouncedTimer._lock
                                          nothing else is taken

`WriterFencing._lock` stands apart: it is taken with nothing held, and owners are asked under it.
"""
