"""Primary-key tables in Apache Paimon's format, owned by Ray actors and fed from Spark.

::

    catalog = pkray.connect("warehouse")
    table = catalog.load_table("shop.orders")
    with table.open_writer() as writer:
        writer.upsert([{"id": 1, "amount": 12.5}])
        writer.commit()
    table.lookup([{"id": 1}])

`pkray.spark` holds what needs Spark, `pkray.ray_data` what needs Ray Data, `pkray.kafka` what needs
a client of Kafka; these and everything
else load when they are first used.

The packages, from the top down; each imports those below it and never one above::

    cli                    the command line
    serving                metrics and the console over HTTP
    inspection             what people look at, as plain data; a diagnosis in one file
    spark                  ingest from Spark, data sources, sessions
    ray_data               tables as Ray Datasets, and a sink for Datasets
    api                    what a user holds: catalog, tables, relations, queries
    backup                 copies of a warehouse: made, proved, restored
    relational             queries over tables: expressions, SQL, plans, the local engine
    table                  tables without queries: reads, lookups, writers, maintenance
    system                 system tables as Arrow
    service                owners of buckets, the coordinator, writers, lookups
    changelog              what changed
    scan                   reading a snapshot
    commit                 publishing snapshots
    expiration             deleting what is no longer kept
    metadata               reading snapshots, schemas, tags, manifests
    lookup                 rows by key, through local copies
    lsm                    the tree of one bucket
    columns                kernels over Arrow columns
    format   storage       bytes as Paimon means them; where they lie
    rows   schema          rows as users bring them; columns, types, their changes
    options   arguments    what users may set; how it is checked
    metrics                what is counted and measured, and how it is shown
    logs      tracing      lines of JSON; spans for OpenTelemetry
    spans                  what a process is at work on, for both
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

from pkray import errors
from pkray.errors import (
    BackPressureError,
    BranchExistsError,
    BranchNotFoundError,
    ColumnNotFoundError,
    CommitConflictError,
    CommitError,
    CommitFencedError,
    CommitUnknownError,
    CorruptFileError,
    DatabaseExistsError,
    DatabaseNotFoundError,
    EvaluationError,
    InputError,
    LostBatchesError,
    MergeError,
    MissingExtraError,
    MissingFileError,
    OptionError,
    PartitionBucketsError,
    PkrayError,
    PlanError,
    QueryCancelledError,
    QueryError,
    QueryExistsError,
    QueryFailedError,
    QueryFencedError,
    QueryNotFoundError,
    SchemaChangedError,
    SchemaError,
    ServiceError,
    ServiceUnavailableError,
    SnapshotNotFoundError,
    StorageError,
    StorageFullError,
    TableError,
    TableExistsError,
    TableInUseError,
    TableNotFoundError,
    TableReplacedError,
    TagExistsError,
    TagNotFoundError,
    UnsupportedError,
    WriterClosedError,
)
from pkray.extras import is_installed
from pkray.version import __version__

if TYPE_CHECKING:
    from pkray import cdc as cdc
    from pkray import kafka as kafka
    from pkray import logs as logs
    from pkray import ray_data as ray_data
    from pkray import relational as relational
    from pkray import spark as spark
    from pkray import tracing as tracing
    from pkray.api.catalog import Catalog, connect, connect_as_set
    from pkray.api.table import SystemTable, Table
    from pkray.format.snapshot import Snapshot
    from pkray.inspection.diagnosis import diagnose
    from pkray.schema.table_schema import TableSchema
    from pkray.schema.types import DataType
    from pkray.service.client.writer import TableWriter

__all__ = [
    "BackPressureError",
    "BranchExistsError",
    "BranchNotFoundError",
    "Catalog",
    "ColumnNotFoundError",
    "CommitConflictError",
    "CommitError",
    "CommitFencedError",
    "CommitUnknownError",
    "CorruptFileError",
    "DataType",
    "DatabaseExistsError",
    "DatabaseNotFoundError",
    "EvaluationError",
    "InputError",
    "LostBatchesError",
    "MergeError",
    "MissingExtraError",
    "MissingFileError",
    "OptionError",
    "PartitionBucketsError",
    "PkrayError",
    "PlanError",
    "QueryCancelledError",
    "QueryError",
    "QueryExistsError",
    "QueryFailedError",
    "QueryFencedError",
    "QueryNotFoundError",
    "SchemaChangedError",
    "SchemaError",
    "ServiceError",
    "ServiceUnavailableError",
    "Snapshot",
    "SnapshotNotFoundError",
    "StorageError",
    "StorageFullError",
    "SystemTable",
    "Table",
    "TableError",
    "TableExistsError",
    "TableInUseError",
    "TableNotFoundError",
    "TableReplacedError",
    "TableSchema",
    "TableWriter",
    "TagExistsError",
    "TagNotFoundError",
    "UnsupportedError",
    "WriterClosedError",
    "__version__",
    "connect",
    "connect_as_set",
    "diagnose",
    "errors",
]

_MODULE_OF = {
    "Catalog": "pkray.api.catalog",
    "DataType": "pkray.schema.types",
    "Snapshot": "pkray.format.snapshot",
    "SystemTable": "pkray.api.table",
    "Table": "pkray.api.table",
    "TableSchema": "pkray.schema.table_schema",
    "TableWriter": "pkray.service.client.writer",
    "connect": "pkray.api.catalog",
    "connect_as_set": "pkray.api.catalog",
    "diagnose": "pkray.inspection.diagnosis",
}
_MODULES = ("cdc", "kafka", "logs", "ray_data", "relational", "spark", "tracing")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"pkray.{name}")
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'pkray' has no attribute {name!r}")


def __dir__() -> list[str]:
    needs = {"ray_data": "ray", "spark": "pyspark"}
    optional = [name for name, package in needs.items() if is_installed(package)]
    return sorted(
        {
            *__all__,
            "cdc",
            "logs",
            "relational",
            "tracing",
            *optional,
            *(name for name in globals() if name.startswith("__")),
        }
    )


if "PKRAY_LOG_FORMAT" in os.environ:
    importlib.import_module("pkray.logs").set_up(os.environ["PKRAY_LOG_FORMAT"])
if "PKRAY_TRACING" in os.environ:
    importlib.import_module("pkray.tracing").set_up(os.environ["PKRAY_TRACING"])
