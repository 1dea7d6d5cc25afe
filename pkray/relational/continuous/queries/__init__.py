"""Continuous queries as people hold them, and where they are kept.

::

    Relation.materialize, Statement.start ──▶ Query ──▶ QueryWorker: a thread, or an actor on Ray
                                                │           │  opens a Run, epoch by epoch
                                                ▼           ▼
                                           QueryStore: a folder a query: its definitions, which
                                           are numbered; a folder a beginning: what it does, epochs
                                           and checkpoints (``log``), states

`ResultStream` gives a relation's changes to whoever asks. `verify` proves a result by the bounded
run at the positions that its snapshot names. ``state_tables`` reads what operators remember and
``skipped_rows`` and ``late_rows`` what was left out; ``as_of_watermarks`` leaves it out of the
bounded run. ``shares`` opens what each of several workers computes with.

Each beginning of a query is an **incarnation** of it. ``begun`` says what becomes of the rows that
its tables hold, ``savepoints`` keeps one and goes back to it, and ``life`` checks that what was
written down, the results and the sources belong together.
"""
