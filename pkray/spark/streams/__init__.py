"""Streams of Spark.

- **stream** (`stream`): ingests micro-batches, each under its number.
- **feeder** (`feeder`): feeds continuous queries, by Arrow files that tasks write (`spooling`).
- **result stream** (`result_stream`): reads the changes of their results.
"""
