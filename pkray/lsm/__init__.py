"""Keep the rows of one bucket in a log-structured merge tree.

::

    rows ──▶ writer: Memtable ──flush──▶ level 0 ──compaction──▶ levels 1 … n
                                         each file a run         each level a run
    reads: all runs, merged by key with the table's merge engine

`Levels` is an immutable set of data files, `SortedRun` those of it that do not overlap. Packages:
``keys`` sorts and groups rows by key, ``merge`` brings runs together, ``engines`` make one row of a
key's, ``writer`` takes rows and prepares commits, ``compaction`` picks runs and merges them.
`DataFileStore` reads and writes the bucket's files, `RunWriter` one run, ``deletion_files`` its
deletion vectors, `RecordExpiry` says which rows have passed their time. Nothing here knows of
owners, sessions or snapshots, and nothing loops over rows.
"""
