"""Find rows by key in a bucket: in its data files, through copies on the local disk, and in memory.

::

    BucketLookup ──▶ RunsSearch: runs newest first, files by key range
                         │
                     LookupStore.locate ─┬─ CachedFile ─ FileIndex ─ BlockStore (RocksDB)
                                         ├─ PageSearch ─ RowPages beside the data file
                                         ├─ rows still in memory
                                         └─ the data file itself (ScanSearch)

`BucketLookup` merges what files and writers hold. `LookupStore` answers for one file and chooses
the way. A `CachedFile` holds its rows in blocks; the `FileIndex` in memory says which block has a
key. A `PageSearch` finds keys in pages that were written beside a file, while there is no copy. An
`ArrowCopy` is for files that are read whole again and again. `LocalFileCache` makes copies,
keeps them within `CopyLimits`, and lets the least recently used go; a `CacheEntry` is what is known
of one file. A failing disk makes lookups slower, never wrong. `StoreLookup` finds old rows for a
compaction's changelog. Alone imports rocksdict.
"""
