"""Upgrades: another plan takes over a query, with the states of the operators that stay the same.

::

    Query.upgrade ──▶ fates: each state kept, warmed up or dropped; or refused
                        │
                        ▼  StoredUpgrade, which whoever runs the query sees
    the query's Run, under the old plan          Shadow: a Run of the new plan, from the beginning,
      goes on and commits results                  which commits nothing: its result is kept aside
                        │                              │  (`Gathered`)
                        └── both at one position ──────┘
                                      │  the epoch after it is written down for the upgrade
                                      ▼
                  switching: one commit of what differs, one checkpoint, the new plan

- Nothing is decided before the **epoch of the upgrade** is written down: until then a crash leaves
  the old plan, and the shadow goes on from its own checkpoints. From then on whoever opens the
  query completes the switch, each step of which may be done again.
- The checkpoint after it names the files of kept states under their new numbers: no file is copied.
- The checkpoint before it, a tag of each result and consumers of the sources stay until the upgrade
  is accepted. Going back is an upgrade to the old plan, whose shadow begins with them.
- Where every state is kept and no result can change there is no shadow, and nothing is computed.
"""
