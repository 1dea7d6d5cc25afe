"""Lets Spark find the format ``pkray`` by itself.

A wheel puts this file beside the package, as Spark looks for modules whose names begin with
``pyspark_``. From a folder of sources, call `pkray.spark.register`.
"""

from pyspark.sql.types import StructType

from pkray.spark.source import SplitReader, TableSource


class DefaultSource(TableSource):
    """Reads and writes tables where nobody called `pkray.spark.register`.

    Filters are not pushed down: Spark refuses that until it is set to, as `register` does.
    """

    def reader(self, schema: StructType) -> SplitReader:
        request = self._request
        self._check_columns(schema)
        return SplitReader(request, schema)
