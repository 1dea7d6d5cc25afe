"""The schema files of a table, read by id."""

from collections.abc import Callable

from pkray.errors import CorruptFileError, MissingFileError
from pkray.format import paths
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore


class SchemaFiles:
    """Schemas by id; what was read once is kept, as a published schema never changes, unless a
    branch takes the table's place.

    Args:
        store: the root of the table, or of a branch.
        known: schemas that are at hand.
        read: reads a file, by its path; default from the store.
    """

    def __init__(
        self, store: ObjectStore, *known: TableSchema, read: Callable[[str], bytes] | None = None
    ) -> None:
        self._read_file = read or store.read
        self._read = {schema.id: schema for schema in known}

    def __call__(self, schema_id: int) -> TableSchema:
        """The schema of that id.

        Raises:
            MissingFileError: there is none.
            CorruptFileError: its file is damaged.
        """
        found = self._read.get(schema_id)
        if found is None:
            found = self._read[schema_id] = self._load(schema_id)
        return found

    def renew(self, schema_id: int) -> bool:
        """Read a schema again, if it was read; whether it is gone or another one now."""
        known = self._read.get(schema_id)
        if known is None:
            return False
        try:
            found = self._load(schema_id)
        except MissingFileError:
            del self._read[schema_id]
            return True
        self._read[schema_id] = found
        return found != known

    def _load(self, schema_id: int) -> TableSchema:
        path = paths.schema(schema_id)
        found = TableSchema.from_json(self._read_file(path), path=path)
        if found.id != schema_id:
            raise CorruptFileError(
                f"schema file {path!r} is damaged: it holds schema {found.id}; restore it from a "
                "copy, or write it again from another schema of the table",
                path=path,
            )
        return found
