"""Joins of changing sides: every kind, with rows kept, counted, or read from their source.

`Join` nodes are computed by ``joins``, which pairs the changes of one side with the rows of the
other (``join_pairs``); each side is a `JoinSide` that keeps its rows (``join_sides``), or finds
them in its source (``sourced_sides``). ``membership`` answers semi and anti joins by counts.
``join_output`` puts the result together. ``lookups`` join rows with the right side as it is when
they come, ``temporal`` with its versions by event time. ``intervals`` join rows whose times are
near.
"""
