"""Read a table's files by Spark's own Parquet reader, where that gives a read's rows."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from pkray.scan.raw_files import divided
from pkray.scan.split import Split, arrow_schema
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import DataType
from pkray.spark.types import spark_schema
from pkray.storage.location import TableLocation

_SAME = frozenset(
    (
        *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"),
        *("CHAR", "VARCHAR", "STRING", "BINARY", "VARBINARY", "BYTES", "DATE"),
        *("TIMESTAMP", "TIMESTAMP_LTZ"),
    )
)
_MICROS = 6
_PATTERNS = frozenset("*?[]{}\\:")
"""What Spark takes as a pattern in a path, or a scheme."""
_READER = {
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "mergeSchema": "false",
}
"""Days and times mean what they say, those of other calendars included."""


def raw_rows(
    session: SparkSession,
    location: TableLocation,
    schema: TableSchema,
    columns: Sequence[str],
    splits: Sequence[Split],
) -> tuple[DataFrame | None, list[Split]]:
    """Read the files of splits that need no merging; filters are not applied.

    Files of object stores are left to the splits: Spark may lack the client or the keys for them.

    Returns:
        their rows, None if there are none; and the splits of the other files.
    """
    store = location.open()
    root = store.local_path("")
    same = all(_is_same(schema.field(name).type) for name in columns)
    paths, others = divided(splits, store) if root is not None and same else ([], [])
    urls = [f"file://{store.local_path(path)}" for path in paths]
    if not urls or any(_PATTERNS & set(url.removeprefix("file:")) for url in urls):
        return None, list(splits)
    reader = session.read.schema(spark_schema(arrow_schema(schema, columns))).options(**_READER)
    return reader.parquet(*urls), others


def _is_same(kind: DataType) -> bool:
    """Whether Spark reads a column from Parquet as the table's own reader gives it to Spark."""
    if kind.root not in _SAME:
        return False
    return not kind.root.startswith("TIMESTAMP") or (kind.precision or _MICROS) <= _MICROS
