"""Run relations continuously: each epoch's changes of the sources become changes of the result.

::

    sources ──▶ feeds ──▶ Changes ──▶ Graph: operators in the order of the plan ──▶ Changes ──▶ sink
                                          │  state before, changes ▶ changes, state after
                                          ▼
                                      State: rows by encoded keys, in an LSM tree
                                          │  every so many epochs
                                          ▼
                                      one checkpoint names the files of all states

`Changes` are rows with kinds (+I, -U, +U, -D). An `Operator` computes one node of a physical plan;
it is a pure kernel with states and knows nothing of sources, commits and threads. A `Graph` has the
operators of a plan. An `Epoch` is what is the same when an epoch is run again. ``encoding`` makes
keys of rows of any types.
"""
