"""Several workers run one query: each holds its share of the state of every operator.

::

    leader: Run ── the epoch's record ──▶ Team ──▶ Member, Member …   (threads, or actors)
      │  Share 0                                     Share 1, Share 2 …
      └──────────────── Peers: changes by key, worker to worker ───────────┘

Every worker has the same graph and takes the same steps (``share``). Before an operator that keeps
rows by key, changes are **exchanged** (``exchange/``): each goes to the worker whose **key group**
its key is in. A worker waits for the changes of all others, which come into its **mailbox**, and
joins them in the order of the workers, so that an epoch that is run again gives the same. The first
worker is in the process of the run, which is the **leader**: it writes epochs and checkpoints down,
and commits results. The others are **members** of its **team**.

Whatever fails in one worker fails the epoch in all, and the query begins anew on its checkpoint.
"""
