"""A store of backups, as its users hold it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pkray.arguments.facade import Label, checked_class
from pkray.backup.create import Creation
from pkray.backup.delete import delete
from pkray.backup.restore import Restoration
from pkray.backup.stored import BackupStore, StoredBackup
from pkray.backup.unit import QUERY, TABLE
from pkray.backup.verify import Fault, verify
from pkray.relational.catalog import Catalog
from pkray.shown import html_table
from pkray.storage.opening import open_store
from pkray.storage.secrets import hide, shown_url

Progress = Callable[[int, int], None]
_COLUMNS = ("name", "made", "tables", "queries", "files", "bytes", "warehouse")


class Backup:
    """A copy of tables, views and queries as they were at a moment.

    Attributes:
        name: of it.
        made: epoch milliseconds.
        warehouse: that was copied, without secrets.
        tables: names, in order.
        views: names, in order.
        queries: names, in order.
        left_out: why a query is not in it, by name.
        files: how many it has; most are shared with other backups.
        bytes: of all of them.
    """

    def __init__(self, stored: StoredBackup) -> None:
        self.name = stored.name
        self.made = stored.made
        self.warehouse = stored.warehouse
        self.tables = sorted(each.name for each in stored.of_kind(TABLE))
        self.queries = sorted(each.name for each in stored.of_kind(QUERY))
        self.views = sorted(stored.views)
        self.left_out = dict(stored.left_out)
        self.files = sum(each.files for each in stored.units)
        self.bytes = sum(each.bytes for each in stored.units)

    def to_dict(self) -> dict[str, Any]:
        """Give what it is as plain values."""
        return dict(vars(self))

    def __repr__(self) -> str:
        return (
            f"Backup({self.name!r}, tables={len(self.tables)}, queries={len(self.queries)}, "
            f"files={self.files}, bytes={self.bytes})"
        )

    def _repr_html_(self) -> str:
        rows = [(key, value) for key, value in self.to_dict().items() if value not in ([], {})]
        return html_table(f"backup {self.name}", rows)


class BackupCheck:
    """Lists the faults that `Backups.verify` found.

    Attributes:
        name: of the backup.
        faults: what is wrong: ``name`` of the table or query, ``path`` of the file, ``what``.
    """

    def __init__(self, name: str, faults: Iterable[Fault]) -> None:
        self.name = name
        self.faults = tuple(faults)

    @property
    def is_whole(self) -> bool:
        """Whether it can be restored."""
        return not self.faults

    def to_arrow(self) -> pa.Table:
        """Make a table of the faults: ``name``, ``path`` and ``what``."""
        schema = pa.schema([(each, pa.string()) for each in ("name", "path", "what")])
        rows = [{"name": each.name, "path": each.path, "what": each.what} for each in self.faults]
        return pa.Table.from_pylist(rows, schema=schema)

    def __repr__(self) -> str:
        found = "whole" if self.is_whole else f"{len(self.faults)} faults"
        return f"BackupCheck({self.name!r}, {found})"

    def _repr_html_(self) -> str:
        rows = [(each.name, each.path, each.what) for each in self.faults]
        return html_table(repr(self), rows, ["name", "path", "what"])


@checked_class
class Backups:
    """Copies of a warehouse, kept in a store of their own; made by `Catalog.backups`.

    Files that are never rewritten are copied once: the next backup shares them.
    """

    def __init__(self, catalog: Catalog, store: str, storage_options: Mapping[str, Any]) -> None:
        self.url = store if "://" in store else str(Path(store).absolute())
        self._catalog = catalog
        self._store = BackupStore(open_store(self.url, **hide(storage_options)))

    def create(
        self,
        name: Label,
        tables: Sequence[str] | None = None,
        progress: Progress = lambda done, total: None,
    ) -> Backup:
        """Copy the warehouse as it is, beside writers, expiry and compaction.

        Of each query a savepoint is made, for which one that runs is stopped and resumed; then
        tables are copied, so that they have all that the savepoints name. What a query is left out
        for is in `Backup.left_out`.

        Args:
            name: of the backup.
            tables: those alone, and the queries that use no others; default all, and all views.
            progress: called with the bytes that were copied, or found in the store, and how many
                are known of.

        Raises:
            OptionError: it cannot be called so.
            BackupExistsError: there is one of this name.
            BackupInUseError: another process changes the store.
            BackupError: files of a table are gone, or expire faster than they are copied.
            TableNotFoundError: there is no such table.
        """
        return Backup(Creation(self._catalog, self._store, progress).make(name, tables))

    def list(self) -> list[Backup]:
        """List the backups, in the order in which they were made."""
        return [Backup(self._store.read(each)) for each in self._store.names()]

    def verify(
        self, name: Label, *, quick: bool = False, progress: Progress = lambda done, total: None
    ) -> BackupCheck:
        """Prove a backup without restoring it: read all that it has, and compare.

        Args:
            quick: look at names and sizes, and read no data.
            progress: called with the bytes that were looked at, and how many there are.

        Raises:
            BackupNotFoundError: there is none of this name.
            CorruptFileError: what says what it holds is damaged.
        """
        return BackupCheck(name, verify(self._store, name, progress, quick=quick))

    def restore(
        self,
        name: Label,
        tables: Sequence[str] | None = None,
        *,
        replace: bool = False,
        deliver: bool = False,
        progress: Progress = lambda done, total: None,
    ) -> Backup:
        """Bring a backup back into this catalog's warehouse, which may be another one.

        Tables have identities of their own, and queries stand still until they are resumed: they
        go on where they were copied, under another incarnation than the original.

        Args:
            tables: those alone, and the queries that use no others; default all, and all views.
            replace: drop what lies where it is restored to.
            deliver: have queries tell the outside of failures, as the copied ones do.
            progress: called with the bytes that were copied, and how many there are.

        Returns:
            what was restored.

        Raises:
            BackupNotFoundError: there is none of this name.
            BackupError: it is damaged or incomplete, or something lies where it is restored to.
            CorruptFileError: a file is not as it was copied; its table is not there then.
            TableInUseError: a query that is not in the backup uses a table that is to go.
            TableNotFoundError: it has no such table.
        """
        restoration = Restoration(self._catalog, self._store, progress)
        return Backup(restoration.restore(name, tables, replace=replace, deliver=deliver))

    def delete(self, name: Label) -> int:
        """Delete a backup, and the files that no other one has.

        Returns:
            the bytes that were freed.

        Raises:
            BackupNotFoundError: there is none of this name.
            BackupInUseError: another process changes the store.
            CorruptFileError: what another backup needs cannot be read: nothing is deleted.
        """
        return delete(self._store, name)

    def to_arrow(self) -> pa.Table:
        """Make a table of the backups: ``name``, ``made``, counts of ``tables``, ``queries`` and
        ``files``, ``bytes`` and ``warehouse``."""
        rows = [
            {**each.to_dict(), "tables": len(each.tables), "queries": len(each.queries)}
            for each in self.list()
        ]
        kinds = [pa.string(), pa.timestamp("ms", "UTC"), *[pa.int64()] * 4, pa.string()]
        schema = pa.schema([*zip(_COLUMNS, kinds, strict=True)])
        return pa.Table.from_pylist([{key: row[key] for key in _COLUMNS} for row in rows], schema)

    def __repr__(self) -> str:
        return f"Backups({shown_url(self.url)!r})"

    def _repr_html_(self) -> str:
        rows = [[each.name, each.made, len(each.tables), each.bytes] for each in self.list()]
        return html_table(repr(self), rows, ["name", "made", "tables", "bytes"])
