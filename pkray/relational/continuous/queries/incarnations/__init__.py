"""Tell the incarnations of a query apart: each is one beginning of it.

``begun`` says what becomes of the rows that its tables hold, ``savepoints`` keeps a checkpoint
under a name and goes back to it, and ``life`` checks that what was written down, the results and
the sources belong together, and that state can go on under a changed TTL.
"""
