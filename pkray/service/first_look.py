"""See what a table is, as its service begins."""

from dataclasses import dataclass
from typing import Self

from pkray.clock import now_millis
from pkray.format.snapshot import Snapshot
from pkray.metadata.live import live_files
from pkray.metadata.schemas import SchemaStore, TableIdentity
from pkray.metadata.snapshots import SnapshotStore
from pkray.schema.table_schema import TableSchema
from pkray.storage.location import TableLocation
from pkray.storage.object_store import together


@dataclass(frozen=True)
class FirstLook:
    """A table as it is: its schemas, and its newest snapshot, whose manifests are in memory.

    The owners of a process share it.

    Attributes:
        began: epoch milliseconds; what was committed before is seen.
    """

    schemas: SchemaStore
    schema: TableSchema
    latest: Snapshot | None
    began: int

    @classmethod
    def at(cls, location: TableLocation) -> Self:
        """Look at the table that a location names.

        Raises:
            TableReplacedError: there is another.
            TableNotFoundError: there is none.
        """
        store, began = location.open(), now_millis()
        schemas, identity = SchemaStore(store, location.name), TableIdentity.at(location)
        schema, latest = together(store, schemas.newest, SnapshotStore(store).latest)
        reads = [] if latest is None else [lambda: live_files(store, latest, schema)]
        together(store, identity.check_same_table, *reads)
        return cls(schemas, schema, latest, began)
