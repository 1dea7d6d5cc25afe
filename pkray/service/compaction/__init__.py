"""Compact the buckets of an owner concurrently with its writers.

The decision is pure: ``policy`` says what a table's options ask for, by ``lsm.compaction.pick``.
The `CompactionScheduler` starts what is due, and makes commits wait where compaction is too far
behind. `Compactions` runs at most one job a bucket, on committed files, which never change; its
outcome waits as a `CompactionJob` until the next commit takes it along or it fits no more. A
`CancellationToken` ends one early, the `CompactionBackoff` leaves a bucket alone whose last one
failed, `CompactionAge` knows how long ago buckets were compacted fully.
"""
