"""The local engine: plans over batches of Arrow, without Java.

::

    run(plan) ──▶ Engine ──▶ one function a kind of node (OPERATORS) ──▶ batches
                    │
                    ├─ row by row   scan, filter, project, expand, unnest, windows: batches stream
                    └─ blocking     aggregates, joins, sorts, OVER: hold their columns in Arrow

- `catalogue`: has all operators, and runs plans.
- `engine`: finds the operator of a node, runs row by row steps on several batches at once.
- `shared`: parts of a plan that are equal are computed once.
- ``pkray.columns.keys``: equality and order as numbers, which blocking operators stand on.
- `folds`: aggregates in parts; `frames`: the rows that a window function sees.
- An operator takes a node and the engine and gives batches with exactly the node's columns.
"""
