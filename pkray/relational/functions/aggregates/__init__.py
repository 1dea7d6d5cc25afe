"""Aggregates and window functions: a value a group, or a row of a window.

::

    name, arguments ──resolve_aggregate──▶ canonical name, casts, type ──kernels──▶ arrays

`aggregates` says how each is called and typed; `kernels` computes a value a group from batches of
rows whose groups are numbered. The local engine and users' functions share the kernels.
"""
