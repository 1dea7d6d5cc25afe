"""The schema that an owner works under."""

import dataclasses
import threading

from pkray.errors import MissingFileError, SchemaChangedError
from pkray.metadata.schemas import SchemaStore, TableIdentity
from pkray.schema.table_schema import TableSchema


class SchemaCache:
    """The table's newest schema, as of the last time that it was looked for. Thread-safe.

    Args:
        identity: of the table that is expected.
        newest: the newest schema, where `schemas` has just listed it.
    """

    def __init__(
        self, schemas: SchemaStore, identity: TableIdentity, newest: TableSchema | None = None
    ) -> None:
        self._schemas = schemas
        self._identity = identity
        self._lock = threading.Lock()
        self.current = newest or schemas.newest()
        self.replacements = 0
        """As of `SchemaStore`, as far as it is the same table: whatever was made under the
        schemas of before does not fit the table any more."""

    def refresh(self, schema_id: int | None = None, listing: str | None = None) -> None:
        """Go on under the newest one; only if this one is not known yet, where it is given.

        Args:
            listing: what schemas there are, as of `SchemaStore.listing`; None: that is not known.

        Raises:
            TableReplacedError: another table is there.
            TableNotFoundError: there is none.
        """
        if schema_id is not None and schema_id <= self.current.id:
            return
        with self._lock:
            if listing is not None and listing == self._schemas.listing:
                return
            newest = self._schemas.newest()
            if self._schemas.replacements != self.replacements:
                self._identity.check_same_table()
                self.replacements = self._schemas.replacements
            self.current = newest

    def read(self, schema_id: int) -> TableSchema:
        """Read any schema of the table."""
        return self._schemas.read(schema_id)

    def resolve(self, schema_id: int, digest: str | None) -> TableSchema:
        """Find the schema that rows or keys come under, with which its holder has loaded the table.

        Args:
            digest: `TableSchema.digest`; None: whatever schema has the id.

        Raises:
            SchemaChangedError: another schema has its place.
        """
        self.refresh(schema_id)
        found = self._find(schema_id, digest)
        if found is None:
            self.refresh()
            found = self._find(schema_id, digest)
        if found is None:
            raise SchemaChangedError(
                f"schema {schema_id} of the table is not the one that it was loaded with: a "
                "branch took its place, or was made anew; load the table again, open a new writer "
                "and write again what was not committed",
                schema_id=schema_id,
                newest=self.current.id,
            )
        return found

    def _find(self, schema_id: int, digest: str | None) -> TableSchema | None:
        try:
            found = self.read(schema_id)
        except MissingFileError:
            return None
        return found if digest in (None, found.digest) else None


def with_buckets(schema: TableSchema, there: int | None) -> TableSchema:
    """Set the number of buckets that a partition has, which may wait to be rescaled; None of one
    without files."""
    if there in (None, schema.core.bucket):
        return schema
    return dataclasses.replace(schema, options={**schema.options, "bucket": str(there)})
