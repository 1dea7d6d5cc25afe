"""Write down how a run of a query goes: epochs, checkpoints, and rows that it left out.

`log` has the epochs that were begun, with the positions of the sources, and the checkpoints, with
the files of states. ``late_rows`` are those that came after their windows had ended, and
``skipped_rows`` those that could not be computed; both are states of the run.
"""
