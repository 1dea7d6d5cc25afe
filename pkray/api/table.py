"""Tables as their users hold them: with queries over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pkray import relational
from pkray.api.alter import Alter
from pkray.arguments.facade import checked_class
from pkray.storage.opening import open_store
from pkray.table import system_table, table

if TYPE_CHECKING:
    from pkray.api.relation import Relation


@checked_class
class Table(table.Table):
    """A keyed table; made by `Catalog.create_table` and `Catalog.load_table`."""

    def relation(self) -> Relation:
        """Query the table: a lazy `pkray.relational.Relation` over its newest snapshot."""
        return relational.of_table(self)

    @property
    def alter(self) -> Alter:
        """Changes of the columns, options and comments: ``table.alter.add_column("x", "INT")``."""
        return self._open_alter(Alter)

    def _check_unused(self) -> None:
        store = open_store(self.location.warehouse, **self.location.storage_options)
        if store.list_dirs(".queries"):
            relational.check_unused(store, self.name, "rolled back")


@checked_class
class SystemTable(system_table.SystemTable):
    """A table that only reads what another holds of itself: its snapshots, files, options and more.

    ``table.system(name)`` is the same as a pyarrow Table.
    """

    def relation(self) -> Relation:
        """Query it: a lazy `pkray.relational.Relation`."""
        return relational.of_system_table(self)
