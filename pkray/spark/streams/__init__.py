"""Streams of Spark.

- **stream** (`stream`): ingests micro-batches, each under its number.
- **feeder** (`feeder`): feeds continuous queries, by Arrow files that tasks write (`spooling`).
- **change reader** (`change_reader`): reads a table's changes, from the place that Spark's
  checkpoint keeps.
- **result stream** (`result_stream`): reads the changes of their results.
"""
