"""Plans as Spark SQL: each node a common table expression, every cast and every order written out.

::

    plan ──SparkSql.query──▶ Writer.name, once a node ──write──▶ rows, groups, joins, windows
                                                                   └▶ constants

- The text means what the plan means in a session with ANSI mode on, the time zone UTC and names
  told apart by case.
- **kernel** (`Writer.kernels`): a call that Spark has no function for. It runs in a
  Python function over Arrow batches, by the same kernel that the local engine uses; whoever runs
  the text registers these.
- **scan** (`Writer.scans`): a source that the text reads as a view; whoever runs it makes the view.
"""
