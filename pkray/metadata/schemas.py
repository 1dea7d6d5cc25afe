"""The schema files of a table, and what tells it from one that was created in its place."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

from pkray.errors import (
    MissingFileError,
    SnapshotNotFoundError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    TableReplacedError,
)
from pkray.format import paths
from pkray.format.schema_files import SchemaFiles
from pkray.lsm.engines import check_functions, merge_engine
from pkray.lsm.engines.merge_order import depends_on_merges
from pkray.metadata.marked_files import held, read_marked, was_read
from pkray.metadata.named_files import numbered_files
from pkray.options import idle_options
from pkray.schema.changes import SchemaChange
from pkray.schema.schema_update import apply_changes
from pkray.schema.table_schema import TableSchema
from pkray.storage.branch_store import BranchStore, main_and_history
from pkray.storage.location import TableLocation
from pkray.storage.object_store import ObjectStore, together

_log = logging.getLogger(__name__)

_PREFIX = paths.schema(0).removesuffix("0")


class SchemaStore:
    """Reads and publishes ``schema/schema-<N>``; what was read once is kept."""

    def __init__(self, store: ObjectStore, table: str) -> None:
        self._store = store
        self._table = table
        self._files = SchemaFiles(store, read=self._read_file)
        self._marks: dict[int, Hashable] = {}
        self._listed: dict[int, Hashable] = {}
        self.replacements = 0
        """Grows when `newest` finds that schemas it had read are others now: a branch took the
        table's place, or was made anew."""

    def copy(self) -> SchemaStore:
        """Make another store that knows what this one knows."""
        made = SchemaStore(self._store, self._table)
        made._marks, made._listed = dict(self._marks), dict(self._listed)
        return made

    def exists(self) -> bool:
        """Whether there is a schema, and so a table, even where it is not listed."""
        if self._store.local_path("") is not None:
            return self._has_first() or bool(self.ids())
        return any(together(self._store, self._has_first, self.ids))

    def _has_first(self) -> bool:
        return self._store.exists(paths.schema(0))

    def ids(self) -> list[int]:
        """List the schema ids, ascending."""
        return sorted(self.marks())

    def marks(self) -> dict[int, Hashable]:
        """List the schema ids, each with a mark that changes when its file is written again."""
        self._listed = {number: file.mark for number, file in numbered_files(self._store, _PREFIX)}
        return self._listed

    def latest(self) -> TableSchema:
        """Return the newest schema.

        Raises:
            TableNotFoundError: there is none.
            CorruptFileError: its file is damaged.
        """
        return self.newest_of(self.marks())

    def read(self, schema_id: int) -> TableSchema:
        """Return the schema of that id.

        Raises:
            MissingFileError: there is none.
            CorruptFileError: its file is damaged.
        """
        return self._files(schema_id)

    def newest(self) -> TableSchema:
        """Return the newest schema, read again only if its file was written again: one request."""
        before, self._marks = self._marks, self.marks()
        for number in before.keys() | self._marks.keys():
            if self._marks.get(number) != before.get(number) and self._files.renew(number):
                self.replacements += 1
        return self.newest_of(self._marks)

    @property
    def listing(self) -> str:
        """Say what `newest` last listed; equal to what another store says that listed the same."""
        listed = sorted((number, repr(mark)) for number, mark in self._marks.items())
        return hashlib.blake2b(repr(listed).encode(), digest_size=16).hexdigest()

    def change(
        self,
        changes: Sequence[SchemaChange],
        *,
        has_snapshots: Callable[[], bool],
        clock: Callable[[], int],
    ) -> TableSchema:
        """Publish the newest schema with some changes; again on top of what others publish first.

        Args:
            has_snapshots: whether the table may have rows.
            clock: epoch milliseconds.

        Raises:
            TableNotFoundError: there is no schema to change.
            SchemaError: a change is not safe; nothing was published.
            OptionError, UnsupportedError: likewise.
        """
        while True:
            latest = self.latest()
            changed = apply_changes(
                latest, changes, has_snapshots=has_snapshots(), now_millis=clock()
            )
            check_functions(changed)
            path, data = paths.schema(changed.id), changed.to_json()
            if self._create(path, data):
                _say_idle(changed, latest)
                return changed

    def newest_of(self, marks: Mapping[int, Hashable]) -> TableSchema:
        """Return the newest of the schemas that `marks` listed.

        Raises:
            TableNotFoundError: there is none.
            StorageError: nothing was listed, and there is one.
            CorruptFileError: its file is damaged.
        """
        if not marks and self._has_first():
            marks = self.marks()  # it may have been made in between
            if not marks:
                folder = self._store.location(paths.schema(0)).rpartition("/")[0]
                raise StorageError(
                    f"table {self._table} is there, and no file of {folder} is listed: something "
                    "between this process and the store answers in its place, such as a proxy"
                )
        if not marks:
            raise TableNotFoundError(
                f"table {self._table} does not exist: create it first, or correct its name",
                table=self._table,
            )
        return self.read(max(marks))

    def _read_file(self, path: str) -> bytes:
        return read_marked(self._store, path, self._listed.get(int(path.removeprefix(_PREFIX))))

    def _create(self, path: str, data: bytes) -> bool:
        """Whether the file of that name is ours: also where the answer to its creation was lost."""
        try:
            if self._store.create(path, data):
                return True
        except StorageError:
            if not (self._store.exists(path) and self._store.read(path) == data):
                raise
            return True
        # An object store is asked again where it gave no answer, and then finds ours there.
        is_certain = self._store.local_path("") is not None
        return not is_certain and self._store.read(path) == data

    def create(self, schema: TableSchema) -> None:
        """Publish a schema under its id.

        Raises:
            TableExistsError: another process published this id first.
            SchemaError, UnsupportedError: an aggregate function does not fit its column.
        """
        check_functions(schema)
        if not self._create(paths.schema(schema.id), schema.to_json()):
            raise TableExistsError(
                f"table {self._table} exists already: use it, or create it only if it does "
                "not exist",
                table=self._table,
            )
        _say_idle(schema)
        for rule in depends_on_merges(schema, merge_engine(schema)):
            _log.warning("the content of table %s depends on compactions: %s", self._table, rule)


def _say_idle(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Log which options change nothing, but for those that did not before either."""
    known = idle_options(before.options) if before is not None else {}
    for key, why in idle_options(schema.options).items():
        if key not in known:
            _log.warning("option %r = %r changes nothing: it %s", key, schema.options[key], why)


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
