"""The columns of a table that a query reads, as the table's schema changes."""

from __future__ import annotations

from pkray.errors import SchemaChangedError
from pkray.metadata.schemas import SchemaStore
from pkray.relational.plan.nodes import Node
from pkray.relational.sources.table import TableSource
from pkray.schema.types import DataField


class ReadColumns:
    """Checks that a table still has the columns that scans read, under their names and types.

    Others may come and go.
    """

    def __init__(self, source: TableSource) -> None:
        self._source = source
        self._checked = source.schema.id
        self._numbers: dict[str, int] = {}

    def add(self, number: int, scan: Node) -> None:
        """Take note of a scan.

        Args:
            number: of the scan in the plan.
        """
        for name in scan.fields.names:
            self._numbers.setdefault(name, number)

    def check(self, schema_id: int) -> None:
        """Check the table's schema, if it has changed.

        Args:
            schema_id: of the newest snapshot.

        Raises:
            SchemaChangedError: a column that is read was dropped, renamed or has another type.
        """
        if schema_id == self._checked:
            return
        table = self._source.original
        schema = SchemaStore(table.location.open(), table.name).latest()
        there = {each.id: each for each in schema.fields}
        for before in self._source.schema.fields:
            number = self._numbers.get(before.name)
            if number is not None:
                self._check_column(number, before, there.get(before.id))
        self._checked = schema_id

    def _check_column(self, number: int, before: DataField, now: DataField | None) -> None:
        if now is None:
            said = "was dropped"
        elif now.name != before.name:
            said = f"was renamed to {now.name}"
        elif str(now.type) != str(before.type):
            said = f"was {before.type} and is {now.type} now"
        else:
            return
        table = self._source.name
        raise SchemaChangedError(
            f"column {before.name!r} of {table}, which node {number} (Scan) reads, {said}: change "
            "it back and resume the query, or upgrade the query to a plan that reads it as it is",
            table=table,
            column=before.name,
            node=number,
        )
