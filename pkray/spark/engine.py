"""Answer what queries ask of Spark, as `pkray.relational.spark_engine` says it."""

from pkray.spark.backfill import start as start_backfill
from pkray.spark.relations import plan_to_arrow, to_batches, to_spark
from pkray.spark.streams.result_stream import read_epochs

__all__ = ["plan_to_arrow", "read_epochs", "start_backfill", "to_batches", "to_spark"]
