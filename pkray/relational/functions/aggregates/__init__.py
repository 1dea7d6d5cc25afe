"""Aggregates and window functions: a value a group, or a row of a window.

::

    name, arguments ──aggregate.resolve_aggregate──▶ canonical name, casts, type
                                                              │
    batches, numbers of groups ──kernels.accumulator──▶ Accumulator.update, finish ──▶ arrays

- **aggregate** (`aggregate.Aggregate`): how it is called and typed. ``totals``, ``choices``,
  ``lists`` and ``windows`` define them; ``arguments`` has what they take.
- **accumulator** (`accumulator.Accumulator`): the values so far of one aggregate. ``numbers`` keeps
  numbers a group, ``rows`` keeps rows; ``kernels`` says which computes what. The local engine,
  continuous queries and users' functions share them.
"""
