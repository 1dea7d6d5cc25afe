"""Read a snapshot: choose it, choose its files, read what of them is wanted.

::

    Moment ──▶ snapshot ──▶ ScanPlanner ──▶ Split ──▶ Split.read ──▶ Arrow batches
    (id, tag, time,                     │ prune by partition, bucket, key and statistics
     watermark)                         └ FileSet: the live files, held by columns

`SnapshotView` is a table at one snapshot, under that snapshot's schema, as ``table.at`` gives it. A
filter is a `Predicate`, made from SQL (``filter_sql``), lists or Arrow expressions; its
``conditions`` are compared with statistics of manifests and files. A `Split` holds files of one
bucket and what is wanted of their rows; it pickles, is read by one task, and merges with the
table's engine. `ScanReport` says what a read would open and what it leaves out. ``file_set_cache``
keeps planned files between reads.
"""
