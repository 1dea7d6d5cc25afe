"""Relations: queries over keyed tables as one typed plan with one meaning.

::

    text (spark, flink) ──▶ sql ──┐                         ┌──▶ local        Arrow batches, no Java
    methods ──▶ Relation ─────────┴──▶ plan ──▶ optimizer ──┤
                                        │                   └──▶ pkray.spark  a DataFrame
                                        └──▶ plan.compiled    JSON, and back

A `Relation` is lazy and immutable: a query (a syntax tree) bound to a plan. Its methods write the
same syntax that a text is parsed into, so that both give the same plan.

- **expression** (`plan.expressions`): typed and explicit. Casts, checked or wrapping arithmetic,
  the order of NULLs and the treatment of zeros stand in it; nothing below the binder knows of
  dialects.
- **node** (`plan.nodes`): what is done to rows. The columns of a node have distinct names, and only
  filters, projections and the further conditions of joins hold expressions: all else names columns.
- **source** (`sources`): where rows come from.
- **function** (`functions`): a name, its typing, its kernel over Arrow arrays and its Spark SQL.
"""
