"""Changes of a table's schema, those that take SQL among them."""

from pkray import relational
from pkray.arguments.facade import checked_class
from pkray.schema.changes import FieldName
from pkray.schema.table_schema import TableSchema
from pkray.table.maintenance import alter


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
