"""Read what operators remember, as tables: ``shop.totals$state_3``; and rows that were left out:
``shop.totals$errors``, ``shop.totals$late``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from pkray.errors import TableNotFoundError
from pkray.format.data_file import DataFileMeta
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.log import late_rows
from pkray.relational.continuous.log.log import NOTHING_YET, Checkpoint
from pkray.relational.continuous.log.skipped_rows import COLUMNS, NAME
from pkray.relational.continuous.queries.definitions.definition import Definition
from pkray.relational.continuous.queries.definitions.query_store import QueryStore
from pkray.relational.continuous.queries.stored import StoredQuery
from pkray.relational.continuous.state.state import stored_rows
from pkray.storage.location import TableLocation
from pkray.storage.object_store import ObjectStore
from pkray.table.reads import Reads
from pkray.table.table import Table

PREFIX = "state_"


@dataclass(frozen=True)
class _StateRows:
    """Gives the rows of one state of a query, as of its newest checkpoint, from all workers.

    Attributes:
        shares: its files, by the number of the worker that keeps them.
    """

    name: str
    location: TableLocation
    folder: ObjectStore
    shares: dict[int, tuple[DataFileMeta, ...]]

    def open_system(self, system: str, snapshot_id: Any = None, **at: Any) -> pa.RecordBatchReader:
        """Read the rows; a state is read as it is, whatever moment is asked for."""
        if not any(self.shares.values()):
            return pa.RecordBatchReader.from_batches(COLUMNS, [])
        return stored_rows(self.folder, self.shares)


@dataclass(frozen=True)
class _LateRows:
    """Gives the rows of a query that came late, as of its newest checkpoint.

    Args:
        windows: of the states that keep them, the columns of the window that a row missed.
    """

    name: str
    location: TableLocation
    folder: ObjectStore
    checkpoint: Checkpoint
    windows: Mapping[str, tuple[str, str]]

    def open_system(self, system: str, snapshot_id: Any = None, **at: Any) -> pa.RecordBatchReader:
        """Read the rows; they are read as they are, whatever moment is asked for."""
        found = late_rows.kept_late(self.folder, self.checkpoint)
        parts = [
            late_rows.shown_late(name, rows, self.windows.get(name)) for name, rows in found.items()
        ]
        rows = pa.concat_tables([late_rows.LATE_COLUMNS.empty_table(), *parts]).sort_by("epoch")
        return pa.RecordBatchReader.from_batches(late_rows.LATE_COLUMNS, rows.to_batches())


def _late_rows(
    catalog: Catalog, table: Table, definition: Definition, found: Checkpoint | None
) -> Reads:
    folder = QueryStore(catalog.store).folder(definition).child("state")
    windows = late_rows.missed_windows(StoredQuery(catalog, definition).roots)
    rows = _LateRows(table.name, table.location, folder, found or NOTHING_YET, windows)
    return cast(Reads, rows)


def state_rows(catalog: Catalog, table: Table, system: str) -> Reads:
    """Give what a `SystemTable` reads of the query that a table is the result of.

    Args:
        system: a state, ``state_3``; ``errors`` or ``late``.

    Raises:
        TableNotFoundError: no query has the table as its result, or no such state.
    """
    store = QueryStore(catalog.store)
    for definition in store.all():
        if table.name not in definition.tables:
            continue
        found = store.log(definition).newest_checkpoint()
        if system == late_rows.LATE:
            return _late_rows(catalog, table, definition, found)
        files = found.files if found else {}
        wanted = system.removeprefix(PREFIX)
        if system == NAME and NAME not in files:
            files = {**files, NAME: ()}
        if wanted in files:
            place = found.folder(wanted) if found else wanted
            folder = store.folder(definition).child(f"state/{place}")
            shares = found.shares if found else ()
            files_of = {worker: each.get(wanted, ()) for worker, each in enumerate(shares)}
            rows = _StateRows(table.name, table.location, folder, files_of)
            return cast(Reads, rows)
        known = ", ".join(f"{table.name}${PREFIX}{each}" for each in files)
        raise TableNotFoundError(
            f"{table.name} has no {system}: there is {known or 'no state yet'}", table=table.name
        )
    raise TableNotFoundError(
        f"{table.name} is the result of no query: it has no {system}", table=table.name
    )
