"""Scalar expressions: names are found, types are given, casts are put in.

`expressions.ExpressionBinder` takes syntax over a scope and gives typed expressions of
`plan.expressions`; `types`, `intervals` and `lambdas` read the parts that have a grammar of their
own. Subqueries, aggregates and windows are asked of a hook, which the binder gives.
"""
