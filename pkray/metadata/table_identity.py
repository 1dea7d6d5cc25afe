"""Tells a table from another one that was created in its place."""

import hashlib
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Self

from pkray.errors import (
    MissingFileError,
    SnapshotNotFoundError,
    TableNotFoundError,
    TableReplacedError,
)
from pkray.format import paths
from pkray.metadata.marked_files import held, read_marked, was_read
from pkray.metadata.named_files import numbered_files
from pkray.metadata.schemas import SchemaStore
from pkray.schema.table_schema import TableSchema
from pkray.storage.branch_store import BranchStore, main_and_history
from pkray.storage.location import TableLocation
from pkray.storage.object_store import ObjectStore
from pkray.storage.side_by_side import together


class TableIdentity:
    """The table that one holder has loaded, compared with the one that is there.

    A table's first schema file tells: it is never changed, and holds the time of its creation.

    Args:
        store: the table's root, or a branch.
        table: its name, for messages.
        identity: of the table that is expected; by default the one that is there when it is first
            looked for.
    """

    def __init__(self, store: ObjectStore, table: str, identity: str | None = None) -> None:
        self._store, _ = main_and_history(store)
        self._table = table
        self._identity = identity
        self._mark: Hashable = None
        self._checked_at: int | None = None

    @classmethod
    def at(cls, location: TableLocation) -> Self:
        """Make the identity of the table that a location names."""
        return cls(location.open(), location.name, location.identity)

    def check_same_table(self) -> None:
        """Look whether it is the table still: one request, or none where files have marks.

        Raises:
            TableReplacedError: there is another.
            TableNotFoundError: there is none.
        """
        mark = self._first_schema_mark()
        if mark is not None and mark == self._mark:
            return
        found = read_identity(self._store)
        if found is None:
            raise TableNotFoundError(
                f"table {self._table} does not exist any more: it was dropped or renamed; create "
                "it first, or correct its name",
                table=self._table,
            )
        if self._identity is None:
            self._identity = found
        if found != self._identity:
            raise TableReplacedError(
                f"table {self._table} was dropped, and another one created in its place, since "
                "it was loaded: load it again with catalog.load_table, and write again what was "
                "not committed, if it belongs to the new table",
                table=self._table,
            )
        self._mark = mark

    def note_checked(self, invalidations: int) -> None:
        """Note that the table was the same when a holder had seen so much: see below."""
        self._checked_at = invalidations

    def check_same_table_after(self, invalidations: int) -> None:
        """Check as `check_same_table` does, if something was invalidated since the last time.

        Args:
            invalidations: of the holder's `SnapshotStore`.
        """
        if invalidations != self._checked_at:
            self.check_same_table()
            self._checked_at = invalidations

    def _first_schema_mark(self) -> Hashable:
        try:
            return self._store.fingerprint(paths.schema(0))
        except MissingFileError:
            return None


@contextmanager
def unless_dropped(location: TableLocation | None) -> Iterator[None]:
    """Report what is missing as the end of the table while its files are read.

    Raises:
        TableReplacedError, TableNotFoundError: a file or a snapshot was missing, as the table is.
    """
    try:
        yield
    except (MissingFileError, SnapshotNotFoundError):
        if location is not None:
            TableIdentity.at(location).check_same_table()
        raise


def read_identity(store: ObjectStore) -> str | None:
    """Read what tells the table from all others, 16 hexadecimal digits; None without a table."""
    main, _ = main_and_history(store)
    first = _first_schema(main)
    return None if first is None else identity_of(first)


def identity_of(first: bytes) -> str:
    """Make the identity of the table that has this first schema file."""
    return hashlib.blake2b(first, digest_size=8).hexdigest()


def identified(store: ObjectStore, schemas: SchemaStore) -> tuple[str | None, TableSchema]:
    """Read which table is there, and its newest schema: in one round of requests, as a rule.

    The identity is never of a later table than the schema.

    Args:
        schemas: of the table, or of the branch, that `store` has.

    Raises:
        TableNotFoundError: there is none.
        CorruptFileError: the schema's file is damaged.
    """
    if not isinstance(store, BranchStore) and store.local_path("") is None:
        if was_read(store, paths.schema(0)):
            marks = schemas.marks()
        else:
            _, marks = together(store, lambda: read_identity(store), schemas.marks)
        if not marks:
            return None, schemas.newest_of(marks)
        first = min(marks)
        data = held(store, paths.schema(first), marks[first])
        if data is not None:  # both are as they were listed
            return identity_of(data), schemas.newest_of(marks)
    identity = read_identity(store)
    return identity, schemas.latest()


def _first_schema(main: ObjectStore) -> bytes | None:
    try:
        return read_marked(main, paths.schema(0))
    except MissingFileError:
        prefix = paths.schema(0).removesuffix("0")
        numbers = [number for number, _ in numbered_files(main, prefix)]
        return main.read(paths.schema(min(numbers))) if numbers else None
