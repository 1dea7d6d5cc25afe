"""Continuous queries as people hold them, and where they are kept.

::

    Relation.materialize, Statement.start ──▶ Query ──▶ QueryWorker: a thread, or an actor on Ray
                                                │           │  opens a Run, epoch by epoch
                                                ▼           ▼
                                           QueryStore: a folder a query: its definitions, which
                                           are numbered; a folder a beginning: what it does, epochs
                                           and checkpoints, states

Floors, from the top down; each uses those below it:

- `Query` is what is held. ``starting``, ``ending``, ``proposals`` (of other plans) and ``proof`` do
  what is asked from outside of a `Watched` query, which some process may run.
- `RunningQueries` has what runs and is fed in this process with one runtime; ``hosting`` has
  processes of a cluster run a query.
- ``opening`` opens a run on the newest checkpoint, and the worker that runs it; ``shares`` what
  each of several workers computes with.
- `StoredQuery` is a definition in the catalog that keeps it: its folder, log, plan and tables;
  ``in_process`` has what this process alone has of it.
- `QueryStore` keeps definitions, with the `QueryOptions` that say how a query runs.

`ResultStream` gives a relation's changes to whoever asks. `verify` proves a result by the bounded
run at the positions that its snapshot names; ``as_of_watermarks`` leaves out of that what came too
late. ``state_tables`` reads what operators remember.

Each beginning of a query is an **incarnation** of it. ``begun`` says what becomes of the rows that
its tables hold, ``savepoints`` keeps one and goes back to it, and ``life`` checks that what was
written down, the results and the sources belong together.
"""
