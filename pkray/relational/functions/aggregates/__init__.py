"""Aggregates and window functions: a value a group, or a row of a window.

::

    name, arguments ──catalogue.resolve_aggregate──▶ canonical name, casts, type
                                                              │
    batches, numbers of groups ──kernels.accumulator──▶ Accumulator.update, finish ──▶ arrays

- **aggregate** (`aggregate.Aggregate`): how it is called and typed. Its family's module says it,
  and how it is computed: ``counts``, ``sums``, ``truths``, ``ends``, ``spreads``, ``quantiles``,
  ``histograms``, ``lists``, ``users`` and ``windows``; ``catalogue`` has them all. What is
  true of it, such as whether it takes rows back, is in `pkray.relational.plan.aggregates`.
- **accumulator** (`accumulator.Accumulator`): the values so far of one aggregate: numbers a group,
  or ``rows``. The local engine, frames, continuous queries and users' functions share them.
- **fold** (`folds.Fold`): states of parts of the rows, merged and finished, where that suffices.
"""
