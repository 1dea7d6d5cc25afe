"""The schema files of a table."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Hashable, Mapping, Sequence

from pkray.errors import StorageError, TableExistsError, TableNotFoundError
from pkray.format import paths
from pkray.format.schema_files import SchemaFiles
from pkray.lsm.engines import check_functions, merge_engine
from pkray.lsm.engines.merge_order import depends_on_merges
from pkray.metadata.marked_files import read_marked
from pkray.metadata.named_files import numbered_files
from pkray.options import idle_options
from pkray.schema.changes import SchemaChange
from pkray.schema.schema_update import apply_changes
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore
from pkray.storage.side_by_side import together

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
