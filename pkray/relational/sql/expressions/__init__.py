"""Scalar expressions: names are found, types are given, casts are put in.

::

    syntax ──ExpressionBinder.bind──▶ hook? ──▶ atoms, operators, casts, calls ──▶ plan.expressions

- **binder** (`expressions.ExpressionBinder`): chooses by the kind of a node; `base.BaseBinder` has
  what all kinds need: the names, the parameters of lambdas, the places of errors.
- **hook**: is asked first; the binder of queries handles subqueries, aggregates and windows there.
- **scope** (`base.Scope`): tells what columns are called.
- `types` and `intervals` read the parts that have a grammar of their own.
"""
