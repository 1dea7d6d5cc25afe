"""Write down how a run of a query goes: epochs, checkpoints, and rows that it left out.

`log` defines the epochs that were begun, with the positions of the sources, and the checkpoints,
with the files of states; `stored_log` keeps both in the folder of a query. ``late_rows`` are those
that came after their windows had ended, and ``skipped_rows`` those that could not be computed; both
are states of the run.
"""
