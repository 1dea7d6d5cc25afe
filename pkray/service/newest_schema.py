"""The schema that an owner works under."""

from __future__ import annotations

from pkray.commit.schemas import SchemaStore
from pkray.schema import TableSchema


class NewestSchema:
    """The table's newest schema, as of the last time that it was looked for."""

    def __init__(self, schemas: SchemaStore) -> None:
        self._schemas = schemas
        self.current = schemas.newest()

    def catch_up(self, schema_id: int | None = None) -> None:
        """Go on under the newest one; only if this one is not known yet, where it is given."""
        if schema_id is None or schema_id > self.current.id:
            self.current = self._schemas.newest()

    def read(self, schema_id: int) -> TableSchema:
        """Any schema of the table."""
        return self._schemas.read(schema_id)
