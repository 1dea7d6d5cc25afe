"""The running parts of a table, as its clients reach them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pkray.schema.table_schema import TableSchema
from pkray.service.calls import CoordinatorClient, OwnerClient
from pkray.service.client.open_writers import OpenWriters
from pkray.service.client.pusher import PushTarget
from pkray.service.protocol import KeptBatch, RoutedBatch, SessionId


@dataclass(frozen=True)
class TableService:
    """The running parts of one table.

    Args:
        push_target: what the tasks of a distributed push are given, which have rows of a schema.
        retain_batch: holds a batch so that it can be pushed again to an owner that restarted; None
            where owners cannot be lost without the writer.
        load_batch: loads what `retain_batch` holds.
        writers: those that are open in this process.
        table: its name.
    """

    coordinator: CoordinatorClient
    owners: Sequence[OwnerClient]
    push_target: Callable[[SessionId, TableSchema], PushTarget]
    retain_batch: Callable[[RoutedBatch], KeptBatch] | None = None
    load_batch: Callable[[KeptBatch], RoutedBatch] | None = None
    writers: OpenWriters = field(default_factory=OpenWriters)
    table: str = ""

    def stats(self) -> dict[str, list[dict[str, object]]]:
        """Collect what the coordinator and the owners say of themselves."""
        owners = [owner.stats().as_dict() for owner in self.owners]
        return {"coordinator": [self.coordinator.stats().as_dict()], "owners": owners}

    def write_stall_reason(self) -> str | None:
        """Say why writers wait, for people; None where they do not."""
        waiting = sum(owner.stats().compaction.writers_waiting for owner in self.owners)
        return f"waits for the compaction of {waiting} buckets" if waiting else None
