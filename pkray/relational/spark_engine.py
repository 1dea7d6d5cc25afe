"""Open the door to Spark, which comes with an extra and stands above queries."""

from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa

from pkray.extras import wing
from pkray.relational.plan.nodes import Node
from pkray.relational.sources.streamed import RunningFeeder
from pkray.storage.spool import Spool


class SparkEngine(Protocol):
    """Runs plans on the active session, or the one given."""

    def to_spark(self, plan: Node, spark: Any = None) -> Any:
        """Write a plan as a DataFrame."""

    def to_batches(self, plan: Node) -> Iterator[pa.RecordBatch]:
        """Run a plan, and take its rows to this process."""

    def plan_to_arrow(self, plan: Node) -> pa.Table:
        """Run a plan whose tables are pinned."""

    def start_backfill(self, query: str, backfill: Any, parts: Any) -> RunningFeeder:
        """Begin to compute the first epoch of a query."""

    def read_epochs(self, spool: Spool, schema: pa.Schema, spark: Any) -> Any:
        """Read the batches of a spool as they come, as a streaming DataFrame."""


def spark_engine() -> SparkEngine:
    """Open what runs plans on Spark.

    Raises:
        MissingExtraError: Spark is not installed.
    """
    engine: SparkEngine = wing("spark")
    return engine
