"""Going back to an earlier snapshot."""

from __future__ import annotations

from pkray.arguments.whole_number import check_snapshot
from pkray.errors import OptionError
from pkray.expiration.rollback import Rollback, RollbackReport
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore


def roll_back(
    store: ObjectStore, schema: TableSchema, snapshot_id: int | None, tag: str | None
) -> RollbackReport:
    """Make the snapshot or the tag the newest; raise `OptionError` unless there is one of both."""
    check_snapshot("snapshot_id", snapshot_id)
    if snapshot_id is not None and tag is None:
        return Rollback(store, schema).to_snapshot(snapshot_id)
    if tag is not None and snapshot_id is None:
        return Rollback(store, schema).to_tag(tag)
    raise OptionError(
        "a rollback goes back to what snapshot_id or tag names: give one of them",
        snapshot_id=snapshot_id,
        tag=tag,
        arguments=("snapshot_id", "tag"),
    )
