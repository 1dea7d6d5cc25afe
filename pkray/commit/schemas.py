"""The schema files of a table."""

from __future__ import annotations

from pkray.errors import TableExistsError, TableNotFoundError
from pkray.schema import TableSchema
from pkray.storage.object_store import ObjectStore

_PREFIX = "schema/schema-"


class SchemaStore:
    """Reads and publishes ``schema/schema-<N>``; what was read once is kept."""

    def __init__(self, store: ObjectStore, table: str) -> None:
        self._store = store
        self._table = table
        self._read: dict[int, TableSchema] = {}

    def exists(self) -> bool:
        return self._store.exists(f"{_PREFIX}0") or bool(self.ids())

    def ids(self) -> list[int]:
        """Schema ids, ascending."""
        numbers = (
            status.path.rsplit("-", 1)[-1]
            for status in self._store.list("schema/")
            if status.path.startswith(_PREFIX)
        )
        return sorted(int(number) for number in numbers if number.isdigit())

    def latest(self) -> TableSchema:
        """The newest schema.

        Raises:
            TableNotFoundError: there is none.
            CorruptFileError: its file is damaged.
        """
        ids = self.ids()
        if not ids:
            raise TableNotFoundError(
                f"table {self._table} does not exist: create it with catalog.create_table",
                table=self._table,
            )
        return self.read(ids[-1])

    def read(self, schema_id: int) -> TableSchema:
        if schema_id not in self._read:
            path = f"{_PREFIX}{schema_id}"
            self._read[schema_id] = TableSchema.from_json(self._store.read(path), path=path)
        return self._read[schema_id]

    def create(self, schema: TableSchema) -> None:
        """Publish a schema under its id.

        Raises:
            TableExistsError: another process published this id first.
        """
        if not self._store.create(f"{_PREFIX}{schema.id}", schema.to_json()):
            raise TableExistsError(
                f"table {self._table} exists already: load it, or create it with "
                "if_not_exists=True",
                table=self._table,
            )
