"""The file at the root of a warehouse in an object store, by which the store is tried."""

from pkray.errors import StorageError
from pkray.storage.object_store import ObjectStore

MARK = ".pkray"
DATABASE_SUFFIX = ".db"
"""Ends the names of a warehouse's folders in which tables are."""


def warehouse_of(url: str) -> str | None:
    """Return the URL of the warehouse in which a table is; None where it is in no database."""
    parts = url.split("/")
    found = [at for at, part in enumerate(parts) if part.endswith(DATABASE_SUFFIX)]
    return "/".join(parts[: found[-1]]) if found and found[-1] > 2 else None


def check_empty(warehouse: ObjectStore) -> None:
    """Check that a warehouse in which nothing was listed has nothing: not even its mark.

    Raises:
        StorageError: it has one, and that is not listed either.
    """
    if warehouse.local_path("") is not None or not warehouse.exists(MARK):
        return
    if next(warehouse.list("", recursive=False, hidden=True), None) is None:
        raise StorageError(
            f"{warehouse.location(MARK)} is there, and nothing is listed beside it: something "
            "between this process and the store answers in its place, such as a proxy"
        )
