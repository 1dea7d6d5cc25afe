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
  `InProcess` has what this process alone has of it.
- ``workers`` run its epochs, and ``verification`` proves its results.
- Each beginning of a query is an **incarnation** of it: ``incarnations`` keeps them apart, and goes
  back to one.
- ``definitions`` keeps what a query is, and the options by which it runs.

`ResultStream` gives a relation's changes to whoever asks. ``state_tables`` reads what operators
remember.
"""
