"""Run tables: owners of buckets, a coordinator, and the clients that talk to them.

::

    client                     owner (one a share of the buckets)          coordinator
    TableWriter, PushSession ─▶ BucketOwner: session ─▶ memtable ─▶ files
      route rows, push Arrow     assignment: where rows of dynamic buckets go
                                 compaction: concurrently with the writers
    TableWriter.commit ───────────────────────────────────────────────▶ TwoPhaseCommit:
                                prepare ◀──────────────────────────────   owners prepare,
                                commit messages (metadata alone) ─────▶   one snapshot is published,
                                acknowledge ◀──────────────────────────   owners are told
    LookupClient ────────────▶ OwnerLookups: committed files, and sessions' rows on top

A bucket has one owner, so that its rows have one order. A session is a writer's work between two
commits; ``protocol`` has what the parts say to each other. A `Runtime` starts a table's service in
this process (`LocalRuntime`) or on Ray (``ray``), where a ``pool`` of processes hosts the parts of
many tables; all run the same classes. ``calls`` lists what they are asked, as typed clients, with
concurrency groups; a `Handle` carries the calls. `CommittedFiles` follows the snapshots for an
owner's buckets, `SchemaCache` the schemas, `Leases` say whose writer is gone, `CallLimits` how long
calls may take. ``dedicated_compaction`` compacts ``write-only`` tables without owners. .design/0002
to 0006 and 0013 have the reasons.
"""
