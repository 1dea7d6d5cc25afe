"""Holds the table that system tables are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from pkray.format.snapshot import Snapshot
from pkray.metadata.schemas import SchemaStore
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema.table_schema import TableSchema
from pkray.storage.location import TableLocation
from pkray.storage.object_store import ObjectStore

MILLIS = pa.timestamp("ms", tz="UTC")


@dataclass(frozen=True)
class Source:
    """The table that a system table is about, and the snapshot to show: by default the newest."""

    location: TableLocation
    store: ObjectStore
    schema: TableSchema
    selected: Snapshot | None = None

    @cached_property
    def snapshots(self) -> SnapshotStore:
        return SnapshotStore(self.store)

    @cached_property
    def schemas(self) -> SchemaStore:
        return SchemaStore(self.store, self.location.name)

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """Return the snapshot to show; None on a table without snapshots."""
        return self.selected or self.snapshots.latest()


def table(schema: pa.Schema, columns: Mapping[str, Sequence[Any] | pa.Array]) -> pa.Table:
    """Make a table of these columns, by name."""
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.table(arrays, schema=schema)


def required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)
