"""Join Spark and tables: ingest batches and streams, read DataFrames.

::

    ingest:  DataFrame ─mapInArrow─▶ push_task on executors ─▶ owners;  reports ─▶ driver ─▶ commit
    read:    ScanPlanner in the driver ─▶ Splits ─▶ executors read files

`ingest` pushes a DataFrame in one commit; `start_ingest` commits each micro-batch under its number,
so that a replayed one changes nothing. Rows go from executors to owners (``batch``, ``streams``).
`read` and `register` are data sources for tables (``source``), `read_stream` for changes
(``changes``), with filters pushed down. `sql` answers Spark's SQL over a catalog's tables, and
`views` gives them names in a session (``queries``). `relation` takes a
DataFrame into queries, and runs plans (``relations``); one that streams feeds continuous queries
through Arrow files that tasks write (``streams``, which read the changes of their results, too);
``backfill`` computes their first epochs. ``session`` starts Spark, on its own or on Ray.
``failure`` brings pkray's errors out of tasks as plain data. Alone imports pyspark and raydp.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pkray.errors import UnsupportedError
from pkray.extras import is_installed, require_extra
from pkray.lazily import opened_lazily

if TYPE_CHECKING:
    from pkray.spark.batch import ingest
    from pkray.spark.changes import read_stream
    from pkray.spark.queries.catalog_sql import sql, views
    from pkray.spark.relations import relation
    from pkray.spark.sessions import session, stop
    from pkray.spark.source import read, register
    from pkray.spark.streams.stream import IngestQuery, start_ingest

__all__ = [
    "IngestQuery",
    "ingest",
    "read",
    "read_stream",
    "register",
    "relation",
    "session",
    "sql",
    "start_ingest",
    "stop",
    "views",
]

require_extra("spark", "pyspark", "pkray.spark")

_OF_DATA_SOURCES = ("read", "read_stream", "register", "relation", "sql", "views")

_open, __dir__ = opened_lazily(
    __name__,
    {
        "IngestQuery": "streams.stream",
        "ingest": "batch",
        "read": "source",
        "read_stream": "changes",
        "register": "source",
        "relation": "relations",
        "session": "sessions",
        "sql": "queries.catalog_sql",
        "start_ingest": "streams.stream",
        "stop": "sessions",
        "views": "queries.catalog_sql",
    },
)


def __getattr__(name: str) -> Any:
    if name in _OF_DATA_SOURCES and not is_installed("pyspark.sql.datasource"):
        raise UnsupportedError(
            f"pkray.spark.{name} needs Spark 4 or newer, which has Python data sources, and this "
            f"is Spark {version('pyspark')}: pip install 'pyspark>=4.0,<4.3', or read with "
            "table.to_arrow()",
            version=version("pyspark"),
        )
    return _open(name)
