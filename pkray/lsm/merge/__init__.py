"""Read sorted runs as one, a row a key, in bounded memory.

`merge_read` streams runs in slices that are cut at a common key (``sorted_streams``), groups rows
by key and has the `MergeEngine` make one of each group. `MergeEngine` is what an engine has to be;
the engines themselves are in ``lsm.engines``. `raw_read` is for deletion vectors, which leave one
row a key, so that nothing need be merged; `LiveRows` leaves out the rows that they mark.
`LocatedRows` are rows with their places in files.
"""
