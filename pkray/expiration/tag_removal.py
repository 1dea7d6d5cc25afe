"""Removes tags, and the files that nothing names without them."""

import contextlib

from pkray.errors import StorageError
from pkray.expiration.delete_files import delete_unreferenced
from pkray.format.tag import Tag
from pkray.metadata.snapshots import SnapshotStore
from pkray.metadata.tags import TagStore
from pkray.schema.table_schema import TableSchema
from pkray.storage.branch_store import main_and_history
from pkray.storage.object_store import ObjectStore


class TagRemoval:
    """Deletes tags of a table or a branch.

    Where the snapshot of a tag has expired, what only the tag kept goes too.

    Args:
        store: the root of the table, or a branch.
        schema: the newest.
    """

    def __init__(self, store: ObjectStore, schema: TableSchema, tags: TagStore) -> None:
        self._main, history = main_and_history(store)
        self._schema = schema
        self._tags = tags
        self._snapshots = SnapshotStore(history)

    def delete(self, name: str) -> None:
        """Delete one tag; raise a `TagNotFoundError` where there is none of that name."""
        self._delete([self._tags.get(name)])

    def expire(self) -> list[str]:
        """Delete the tags that were kept for as long as they were to be; their names."""
        expired = self._tags.expired()
        self._delete(expired)
        return [tag.name for tag in expired]

    def _delete(self, tags: list[Tag]) -> None:
        for tag in tags:
            self._tags.delete(tag.name)
        alone = [tag.snapshot for tag in tags if not self._snapshots.holds(tag.snapshot)]
        with contextlib.suppress(StorageError):  # what stays is the orphan cleaner's
            delete_unreferenced(self._main, self._schema, [], alone)
