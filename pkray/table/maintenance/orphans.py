"""Removal of files that nothing names."""

from collections.abc import Callable
from datetime import datetime

import pyarrow as pa

from pkray.clock import now_millis
from pkray.expiration.orphans import OrphanFiles
from pkray.scan.moment import epoch_millis
from pkray.schema.table_schema import TableSchema
from pkray.storage.branch_store import main_and_history
from pkray.storage.object_store import FileStatus, ObjectStore
from pkray.system.source import MILLIS, optional, table

DAY_MILLIS = 86_400_000
"""The default age of orphans: longer than a commit takes."""
_COLUMNS = (
    optional("path", pa.string(), "path"),
    optional("size", pa.int64(), "size"),
    optional("modified", MILLIS, "modified_millis"),
)


def remove_orphan_files(
    store: ObjectStore,
    schema: TableSchema,
    older_than: int | datetime | str | None = None,
    dry_run: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> pa.Table:
    """Delete the files of a table's folders that nothing of the table names.

    Args:
        older_than: younger files stay, as a commit that is under way may be about to name them:
            epoch milliseconds, a datetime or ISO text. Default a day ago.
        dry_run: delete nothing.
        progress: called with the number of files looked at so far.

    Returns:
        ``path``, ``size`` (bytes) and ``modified`` of each orphan.

    Raises:
        MissingFileError: the table is damaged; nothing was deleted for it.
    """
    before = now_millis() - DAY_MILLIS if older_than is None else epoch_millis(older_than)
    main, _ = main_and_history(store)
    found: list[FileStatus] = []
    for batch in OrphanFiles(store, schema).find(before, progress):
        if not dry_run:
            main.delete([file.path for file in batch])
        found += batch
    return table(_COLUMNS, found)
