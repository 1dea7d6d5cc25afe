"""Joins of changing sides: every kind, with rows kept, counted, or read from their source.

`Join` nodes are computed by ``joins``; each side is a `JoinSide` (``join_sides``) that keeps its
rows (``kept_sides``), or finds them in its source (``sourced_sides``). ``key_counts``,
``membership`` and ``null_membership`` answer semi and anti joins by counts. ``pairing`` pairs the
changes of one side with the rows of the other (``join_pairs``), ``join_output`` puts the result
together. ``lookups`` join rows with the right side as it is when they come (``lookup_cache`` spares
some of them), ``temporal`` with its versions by event time. ``intervals`` join rows whose times are
near, each side a ``near_side``.
"""
