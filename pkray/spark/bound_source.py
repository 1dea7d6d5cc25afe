"""Data sources that are bound to what one call reads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource

from pkray import spans
from pkray.spark.types import TIME_TYPE

if TYPE_CHECKING:
    from pyspark.sql.readwriter import DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader

_REGISTERING = threading.Lock()


def load(
    spark: SparkSession,
    reader: DataFrameReader | DataStreamReader,
    source: type[DataSource],
    request: object,
) -> DataFrame:
    """Load the DataFrame of a source whose ``request`` is this one.

    The request goes with the source's class, which Spark ships as it ships functions. Options are
    no place for it: they are text that every user of the session may write, and that plans show.
    Once it is loaded, a DataFrame keeps its source, and the name is again of one without a request.
    """
    spark.conf.set(TIME_TYPE, "true")
    with _REGISTERING:
        spark.dataSource.register(_bound(source, request))
        try:
            return reader.format(source.name()).load()
        finally:
            spark.dataSource.register(source)


def _bound(source: Any, request: object) -> type[DataSource]:
    """Make a class that no module has by name: it is shipped whole."""

    class Bound(source):  # type: ignore[misc]
        pass

    Bound.request = request
    Bound.envelope = spans.envelope()
    return Bound
