"""Logical plans: typed expressions, the nodes that hold them, and what follows from them.

::

    nodes ──▶ keys, changelog_modes, state, lints        pure functions of a plan
      │
      └──▶ physical ──▶ json.writer ──▶ a file ──▶ json.reader ──▶ nodes

- **expression** (`expressions`): a value a row, of one type; `text` writes it and reads it again.
- **node** (`node`, `nodes`): a step of a plan, with distinct columns (`fields`); its class says
  all that is true of its kind.
- **key** (`keys`): columns that tell rows apart, in the content or in the changes.
- **changelog mode** (`changelog_modes`): which kinds of changes a node gives.
- **state** (`state`): what an operator remembers between epochs.
- **physical plan** (`physical`): with exchanges and normalization, as it is shown.
"""
