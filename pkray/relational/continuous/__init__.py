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
- An **operator** (``operator``, ``operators/``) computes one node of a physical plan. It is a pure
  kernel with states (``state/``) and knows nothing of sources, commits and threads. A ``graph`` has
  the operators of a plan.
- A **feed** (``feeds/``) gives the changes of a source between two **positions**.
- An **epoch** takes all sources from one position to another. A **run** (``run``) goes from epoch
  to epoch: it writes each down before it begins, gives its net changes to an **outlet** for each
  root of the plan (``outlets/``), and now and then writes a **checkpoint** of all states.
- **Event time** (``watermarks``) is at each operator as far as the slowest source below it. It
  moves at the end of an epoch, and what waited for it comes then.
- Several **workers** (``parallel/``) may share a run: each has all operators, and of their rows
  those of its keys, which they **exchange** (``exchange/``).
- The **log** (``log/``) has the epochs and checkpoints of a query, and the rows that it left out.
- A **query** (``queries/``) is what people hold and a warehouse keeps; a worker runs it. A stream
  gives changes to whoever asks for the next.
"""
