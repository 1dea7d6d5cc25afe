"""Run relations continuously: each epoch's changes of the sources become changes of the result.

::

    sources ──▶ Feeds ──▶ Changes ──▶ Graph: operators in the plan's order ──▶ Changes ──▶ Outlet
                                          │  state before, changes ▶ changes, state after
                                          ▼
                                      State: rows by encoded keys, in an LSM tree
                                          │  every so many epochs
                                          ▼
                                      one checkpoint names the files of all states

- **Changes** (``changes``) are rows with kinds (+I, -U, +U, -D).
- An **operator** (``operator``, ``operators``) computes one node of a physical plan. It is a pure
  kernel with states (``state``; ``encoding`` makes their keys of rows of any types) and knows
  nothing of sources, commits and threads. A ``graph`` has the operators of a plan. ``source_rows``
  and ``table_rows`` find rows that are in a source and need not be kept again; ``skipped_rows``
  keeps those that could not be computed.
- A **feed** (``feeds``) gives the changes of a source between two **positions**;
  ``told_snapshots`` finds those of a table up to which its changelog is complete.
- An **epoch** takes all sources from one position to another. A **run** (``run``) goes from epoch
  to epoch: it writes each down before it begins (``log``), gives its net changes to an **outlet**
  for each root of the plan (``outlets``, ``table_outlet``; ``conflicts`` settles rows that agree
  in a table's key), and now and then writes a **checkpoint** of all ``states``.
- A **query** (``query``) is what people hold: made by ``materializing`` and by statements, kept in
  the warehouse (``query_store``), run by a ``worker``. ``stream`` gives changes to whoever asks
  for the next, ``state_tables`` shows states as tables, and ``verify`` compares a result with the
  bounded run.
"""
