"""Records that cannot be read, in a table of their own: their place, the reason and their text."""

from collections.abc import Sequence

import pyarrow as pa

from pkray.api.catalog import Catalog
from pkray.cdc.decoder import BadRecord
from pkray.closing import Closeable
from pkray.errors import InputError
from pkray.service.client.writer import TableWriter
from pkray.table.table import Table
from pkray.table.table_name import TableName

ERRORS = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("record", pa.int64(), nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("text", pa.binary(), nullable=False),
    ]
)
"""Tells where a record is from, which of them it is and where it begins there, in bytes; what is
wrong with it, and what it is. The key is its place: a load that is repeated adds none."""
_KEY = ["source", "record"]


def open_errors(catalog: Catalog, name: str) -> Table:
    """Load the table that takes bad records; create it where there is none.

    Args:
        name: ``db.t$errors`` is the table beside ``db.t``, ``db.t_errors``, which SQL and
            ``load_table`` know by both names.

    Raises:
        InputError: there is another table of this name.
    """
    named = TableName.parse(name)
    name = named.errors if named.system == "errors" else name
    table = catalog.create_table(name, ERRORS, primary_keys=_KEY, if_not_exists=True)
    check_errors(table)
    return table


def check_errors(table: Table) -> None:
    """Check that a table takes bad records.

    Raises:
        InputError: it has other columns.
    """
    if table.arrow_schema.names != ERRORS.names:
        raise InputError(
            f"{table.name} is no table of bad records: it has "
            f"{', '.join(table.arrow_schema.names)}; name another",
            table=table.name,
        )


def rows_of(bad: Sequence[BadRecord]) -> pa.Table:
    """Make rows of a table of bad records."""
    values = [(each.source, each.number, each.offset, each.reason, each.record) for each in bad]
    columns = zip(*values, strict=True) if values else [()] * len(ERRORS)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, ERRORS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=ERRORS)


class BadRecords(Closeable):
    """Collects bad records, and writes them in a commit of the load's name.

    Args:
        table: None: there are none.
    """

    def __init__(self, table: Table | None, user: str | None, identifier: int | None) -> None:
        self._table = table
        self._user = user
        self._identifier = identifier
        self._writer: TableWriter | None = None
        self._held: list[BadRecord] = []
        self._is_written = False
        self.count = 0

    def close(self) -> None:
        """Drop what was not committed."""
        if self._writer is not None:
            self._writer.close()

    def add(self, bad: BadRecord) -> None:
        """Take one record."""
        self._held.append(bad)
        self.count += 1

    def write(self) -> None:
        """Write what was taken."""
        if not self._held or self._table is None:
            return
        if self._writer is None:
            self._writer = self._table.open_writer(self._user)
        self._writer.upsert(rows_of(self._held))
        self._held = []
        self._is_written = True

    def commit(self) -> None:
        """Commit what was written, before what was not bad: nothing is lost in between."""
        self.write()
        if self._writer is not None and self._is_written:
            self._writer.commit(self._identifier)
            self._is_written = False
