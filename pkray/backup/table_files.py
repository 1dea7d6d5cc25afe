"""Name the files that a table's copy needs."""

from collections.abc import Mapping

from pkray.backup.table_copy import TableCopy, folders_of_small, is_small
from pkray.backup.unit import read_small
from pkray.errors import MissingFileError
from pkray.expiration.references import References, branch_roots, collect
from pkray.format import paths
from pkray.metadata.schemas import SchemaStore
from pkray.storage.object_store import ObjectStore


def small_files(table: ObjectStore) -> dict[str, bytes]:
    """Read the content of a table's small files, by path."""
    folders = folders_of_small(table.list_dirs(paths.BRANCH_DIR))
    listed = [each.path for folder in folders for each in table.list(folder, recursive=False)]
    return read_small(table, [path for path in listed if is_small(path)])


def shared_files(small: Mapping[str, bytes], shared: ObjectStore, name: str) -> dict[str, int]:
    """Find the files that small ones lead to, with their sizes in bytes.

    Args:
        shared: where they are.
        name: of the table, for messages.

    Raises:
        MissingFileError: one is gone.
        CorruptFileError: one of those that lead to others is damaged.
    """
    copy = TableCopy(small, shared, f"copy-{id(small):x}")
    deltas = SchemaStore(copy, name).newest().core.changelog_producer == "none"
    needed = References()
    for root in (copy, *branch_roots(copy)):
        collect(copy, root, needed, deltas=deltas)
    found: dict[str, int] = {}
    data = 0
    for file in shared.list(""):
        folder, _, file_name = file.path.rpartition("/")
        if file.path in needed.metadata:
            found[file.path] = file.size
        elif paths.bucket_of(folder) is not None and file_name in needed.data:
            found[file.path] = file.size
            data += 1
    lost = sorted(needed.metadata - found.keys())
    if lost or data < len(needed.data):
        missing = len(lost) + len(needed.data) - data
        first = f", {lost[0]} among them" if lost else ""
        raise MissingFileError(f"{missing} files that {name} names are gone{first}", table=name)
    return found
