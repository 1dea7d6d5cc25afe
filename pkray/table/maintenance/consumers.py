"""The consumers of a table."""

from collections.abc import Callable

import pyarrow as pa

from pkray.arguments.facade import Label, SnapshotId, checked_class
from pkray.arguments.whole_number import check_snapshot
from pkray.errors import SnapshotNotFoundError
from pkray.metadata.changelogs import ChangelogStore
from pkray.metadata.consumers import ConsumerStore
from pkray.metadata.snapshots import SnapshotStore
from pkray.storage.branch_store import main_and_history
from pkray.storage.object_store import ObjectStore, together
from pkray.storage.secrets import shown_url
from pkray.system.source import MILLIS, optional, table

_COLUMNS = (
    optional("consumer_id", pa.string(), "name"),
    optional("next_snapshot_id", pa.int64(), "next_snapshot"),
    optional("modified", MILLIS, "modified_millis"),
)


@checked_class
class Consumers:
    """Readers of the changes that keep their place under a name; ``table.consumers``.

    A snapshot that a consumer has still to read does not expire. One that does not move for
    ``consumer.expiration-time`` is forgotten.

    Args:
        store: the table's root, or a branch.
        check_same_table: called before a consumer is reset.
    """

    def __init__(
        self, store: ObjectStore, check_same_table: Callable[[], None] = lambda: None
    ) -> None:
        self._url = store.url
        self._check_same_table = check_same_table
        self._store = store
        _, history = main_and_history(store)
        self._consumers = ConsumerStore(history)
        self._snapshots = SnapshotStore(history)
        self._changelogs = ChangelogStore(history)

    def __repr__(self) -> str:
        return f"Consumers({shown_url(self._url)!r})"

    def list(self) -> pa.Table:
        """List the consumers, a row each, by name: ``consumer_id``, ``next_snapshot_id``,
        ``modified``."""
        return table(_COLUMNS, self._consumers.list())

    def reset(self, consumer_id: Label, next_snapshot_id: SnapshotId | None = None) -> None:
        """Let a consumer go on from another snapshot; it need not exist yet.

        Args:
            next_snapshot_id: the next it reads. Default the one that is to come.

        Raises:
            SnapshotNotFoundError: it has expired, or lies beyond the one that is to come.
            OptionError: a name that no consumer can have, or what is no snapshot's id.
        """
        check_snapshot("next_snapshot_id", next_snapshot_id)
        _, newest, changelog, oldest = together(
            self._store,
            self._check_same_table,
            self._snapshots.latest_id,
            self._changelogs.earliest_id,
            self._snapshots.earliest_id,
        )
        latest = newest or 0
        wanted = latest + 1 if next_snapshot_id is None else next_snapshot_id
        earliest = changelog or oldest or 1
        if not earliest <= wanted <= latest + 1:
            raise SnapshotNotFoundError(
                f"consumer {consumer_id!r} cannot go on from snapshot {wanted}: changes from "
                f"snapshot {earliest} to {latest} are there, and {latest + 1} is to come",
                consumer=consumer_id,
                snapshot_id=wanted,
                earliest=earliest,
                latest=latest,
            )
        self._consumers.record(consumer_id, wanted)

    def delete(self, consumer_id: Label) -> None:
        """Forget a consumer; nothing happens where there is none."""
        self._consumers.delete(consumer_id)
