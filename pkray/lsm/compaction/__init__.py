"""Merge sorted runs into fewer, and tell what that changed.

::

    pick ──▶ CompactionUnit ──▶ Compactor.run ──▶ CompactionResult
    (pure)   (runs, output level)    │ SectionMerge, section by section
                                     └ UpperLevelLookup: rows in the levels above

``pick`` decides, as a pure function of runs and options. The `Compactor` carries a unit out and
deletes nothing: files of the result take the place of the inputs when a commit says so. Files that
overlap with no other just change their level. `SectionMerge` merges rows that share a range of keys
and makes the changelog where the table's producer asks for it (`ChangelogRows`), from the rows that
keys had in higher levels. The `FlushedRowsCache` spares reading files that were written just now.
``under_way`` knows which compactions run in this process.
"""
