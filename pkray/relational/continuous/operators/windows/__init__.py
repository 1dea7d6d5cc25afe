"""What waits for event time.

``event_time`` says when a time has passed. ``waiting`` keeps rows in the order of their times until
it has, ``recent`` those of an epoch in memory until it ends; ``due_pages`` cuts what comes between
two times. ``window_aggregate`` keeps the groups of open windows, ``sessions`` the rows of open
sessions (``spans``: of times that are near each other). ``held_windows`` keeps the rows of open
windows, and ``bounded`` computes joins, top-n and deduplication of windows that are over;
``first_rows`` keeps the first row of each key.
"""
