"""Holds the table that system tables are about."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

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


class Column(NamedTuple):
    """A column of a system table.

    Args:
        value: finds it in what a row shows; None of columns that are made as a whole.
    """

    field: pa.Field
    value: Callable[[Any], object] | None


def optional(
    name: str, kind: pa.DataType, value: str | Callable[[Any], object] | None = None
) -> Column:
    """Describe a column that may hold nulls.

    Args:
        value: as of `Column`, or the name of an attribute, such as ``snapshot.id``.
    """
    found = attrgetter(value) if isinstance(value, str) else value
    return Column(pa.field(name, kind), found)


def required(
    name: str, kind: pa.DataType, value: str | Callable[[Any], object] | None = None
) -> Column:
    """Describe a column without nulls, as `optional` does."""
    field, found = optional(name, kind, value)
    return Column(field.with_nullable(False), found)


def table(columns: Sequence[Column], found: Sequence[Any] = (), **whole: Sequence[Any]) -> pa.Table:
    """Make a table with a row for each that was found.

    Args:
        whole: the values of columns that are made as a whole, by name.
    """
    arrays = [
        pa.array(map(value, found) if value else whole[field.name], field.type)
        for field, value in columns
    ]
    return pa.table(arrays, schema=pa.schema([field for field, _ in columns]))
