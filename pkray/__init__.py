"""Primary-key tables in Apache Paimon's format, owned by Ray actors and fed from Spark.

::

    catalog = pkray.connect("warehouse")
    table = catalog.load_table("shop.orders")
    with table.open_writer() as writer:
        writer.upsert([{"id": 1, "amount": 12.5}])
        writer.commit()
    table.lookup([{"id": 1}])

`pkray.spark` holds what needs Spark; it and everything else load when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pkray import errors
from pkray.errors import (
    BackPressureError,
    BranchExistsError,
    BranchNotFoundError,
    CommitConflictError,
    CommitError,
    CommitFencedError,
    CommitUnknownError,
    CorruptFileError,
    DatabaseExistsError,
    DatabaseNotFoundError,
    InputError,
    LostBatchesError,
    MergeError,
    MissingExtraError,
    MissingFileError,
    OptionError,
    PartitionBucketsError,
    PkrayError,
    SchemaChangedError,
    SchemaError,
    ServiceError,
    ServiceUnavailableError,
    SnapshotNotFoundError,
    StorageError,
    StorageFullError,
    TableError,
    TableExistsError,
    TableNotFoundError,
    TableReplacedError,
    TagExistsError,
    TagNotFoundError,
    UnsupportedError,
    WriterClosedError,
)
from pkray.extras import is_installed

if TYPE_CHECKING:
    from pkray import spark as spark
    from pkray.catalog import Catalog, connect
    from pkray.format.snapshot import Snapshot
    from pkray.schema import TableSchema
    from pkray.service.writer import TableWriter
    from pkray.system_table import SystemTable
    from pkray.table import Table
    from pkray.types import DataType

__version__ = "0.1.0"

__all__ = [
    "BackPressureError",
    "BranchExistsError",
    "BranchNotFoundError",
    "Catalog",
    "CommitConflictError",
    "CommitError",
    "CommitFencedError",
    "CommitUnknownError",
    "CorruptFileError",
    "DataType",
    "DatabaseExistsError",
    "DatabaseNotFoundError",
    "InputError",
    "LostBatchesError",
    "MergeError",
    "MissingExtraError",
    "MissingFileError",
    "OptionError",
    "PartitionBucketsError",
    "PkrayError",
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
    "errors",
]

_HOMES = {
    "Catalog": "pkray.catalog",
    "DataType": "pkray.types",
    "Snapshot": "pkray.format.snapshot",
    "SystemTable": "pkray.system_table",
    "Table": "pkray.table",
    "TableSchema": "pkray.schema",
    "TableWriter": "pkray.service.writer",
    "connect": "pkray.catalog",
}
_MODULES = ("spark",)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"pkray.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'pkray' has no attribute {name!r}")


def __dir__() -> list[str]:
    optional = _MODULES if is_installed("pyspark") else ()
    return sorted({*__all__, *optional, *(name for name in globals() if name.startswith("__"))})
