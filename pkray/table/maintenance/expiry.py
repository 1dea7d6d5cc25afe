"""Expiry of snapshots by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pkray.arguments.whole_number import whole_number
from pkray.clock import now_millis
from pkray.expiration.expiry import SnapshotExpirer
from pkray.expiration.expiry_report import ExpiryReport
from pkray.expiration.retention import Retention, snapshot_retention
from pkray.scan.snapshot_selector import epoch_millis
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore


def expire_snapshots(
    store: ObjectStore,
    schema: TableSchema,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than: int | datetime | str | None = None,
    max_deletes: int | None = None,
    *,
    clock: Callable[[], int] = now_millis,
) -> ExpiryReport:
    """Expire snapshots, and changelogs, by the table's options where nothing else is said.

    Args:
        retain_max: as ``snapshot.num-retained.max``.
        retain_min: as ``snapshot.num-retained.min``.
        older_than: younger ones stay, in place of ``snapshot.time-retained``: epoch milliseconds,
            a datetime or ISO text.
        max_deletes: as ``snapshot.expire.limit``.

    Raises:
        OptionError: a number below 1, or ``retain_min`` above ``retain_max``.
        StorageError: the storage failed; expire again.
    """
    given = {"retain_max": retain_max, "retain_min": retain_min, "max_deletes": max_deletes}
    for name, value in given.items():
        if value is not None:
            whole_number(name, value, 1)
    now = clock()
    asked = snapshot_retention(schema.core)
    most = asked.num_max if retain_max is None else retain_max
    # As little as the user said to keep at most, unless a least number was said too.
    least = min(asked.num_min, most) if retain_min is None else retain_min
    retention = Retention(
        num_min=least,
        num_max=most,
        time_millis=asked.time_millis if older_than is None else now - epoch_millis(older_than),
        limit=asked.limit if max_deletes is None else max_deletes,
    )
    return SnapshotExpirer(store, schema, lambda: now).expire(retention)
