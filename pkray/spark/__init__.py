"""Spark on one side, tables on the other: ingest batches and streams, read DataFrames."""

from pkray.spark.ingest import ingest
from pkray.spark.session import session, stop
from pkray.spark.source import read, register
from pkray.spark.stream import IngestQuery, start_ingest

__all__ = ["IngestQuery", "ingest", "read", "register", "session", "start_ingest", "stop"]
