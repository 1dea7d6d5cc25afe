"""Tables as their users hold them: with queries over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pkray import relational
from pkray.arguments.facade import checked_class
from pkray.schema.changes import FieldName
from pkray.schema.table_schema import TableSchema
from pkray.storage.opening import open_store
from pkray.table import system_table, table
from pkray.table.maintenance import alter

if TYPE_CHECKING:
    from pkray.api.relation import Relation


@checked_class
class Alter(alter.Alter):
    """Changes a table's schema, with expressions in SQL too; ``table.alter``."""

    def set_watermark(self, column: FieldName, delay: str | None = None) -> TableSchema:
        """Declare how far event time has come: queries wait so long for rows that come late.

        Args:
            column: of type TIMESTAMP or TIMESTAMP_LTZ.
            delay: for how long: ``5 s``, or an expression of the row in SQL, ``ts - INTERVAL '5'
                SECOND``; by default not at all.

        Raises:
            QueryError: no such column, one of another type, or an expression that is no time.
        """
        schema = self._schemas.latest()
        new = relational.options_of(schema, column, delay)
        return self.apply(alter.watermark_changes(schema, new))


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
