"""A model of lives: what may happen to continuous queries, at random, against what has to be.

::

    random_lives ──▶ Life: plays steps ──▶ Machine: a process, its catalog and runtime
                      │                        │  each call of its store may kill it
                      │                        ▼
                      │                     World: the files of the warehouse, in memory
                      ▼
                    Sources, Runs: what has to be; ``plans`` compute it row by row

- A **world** is what all processes share: files. A **machine** is a process. It is killed or falls
  asleep at any call of its store, by a plan; another one may go on with what it did.
- A **step** is what a user or fate does. It is written as it is made: a list of steps is a script.
- A **life** plays steps. After each one it compares every new snapshot of every result, what the
  queries say of themselves, and what else there is, with its own books.
- ``random_lives`` makes lives by numbers, tells them as scripts, and makes those that fail shorter.
- ``scripts`` are lives that once went wrong, or that find what few random ones find.
- ``planted`` takes one protection of pkray away: lives have to find out.
"""
