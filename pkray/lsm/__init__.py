"""The LSM tree of one bucket: memtable, sorted runs, merge engines, compaction."""
