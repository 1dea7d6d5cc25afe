"""Keep rows and groups until event time has passed them.

``event_time`` says when a time has passed. ``waiting`` keeps rows in the order of their times until
it has, and cuts what comes between two times; ``recent`` keeps those of an epoch in memory until it
ends. ``window_aggregate`` gives the groups of windows (``open_groups``), ``slice_aggregate`` those
of overlapping windows, put together of slices, ``updated_windows`` results that come early or
change. ``sessions`` keeps the rows of open sessions. ``bounded`` keeps the rows of open windows,
and computes joins, top-n and deduplication of windows that are over; ``first_rows`` keeps the first
row of each key, ``over_in_time`` computes OVER in the order of time.
"""
