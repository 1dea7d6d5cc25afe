"""Read what operators remember, as tables: ``shop.totals$state_3``; and rows that were left out:
``shop.totals$errors``, ``shop.totals$late``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import pyarrow as pa

from pkray.errors import TableNotFoundError
from pkray.format.data_file import DataFileMeta
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.log import late_rows
from pkray.relational.continuous.log.log import NOTHING_YET, Checkpoint
from pkray.relational.continuous.log.skipped_rows import COLUMNS, NAME
from pkray.relational.continuous.queries.definitions.query_store import QueryStore
from pkray.relational.continuous.queries.stored import StoredQuery
from pkray.relational.continuous.state.state import stored_rows
from pkray.storage.location import TableLocation
from pkray.storage.object_store import ObjectStore
from pkray.table.reads import Reads
from pkray.table.table import Table

PREFIX = "state_"


@dataclass(frozen=True)
class _KeptRows:
    """Gives rows that a query has kept, as of its newest checkpoint."""

    name: str
    location: TableLocation
    read: Callable[[], pa.RecordBatchReader]

    def open_system(self, system: str, snapshot_id: Any = None, **at: Any) -> pa.RecordBatchReader:
        """Read the rows; they are read as they are, whatever moment is asked for."""
        return self.read()


def _state_rows(
    folder: ObjectStore, shares: Mapping[int, Sequence[DataFileMeta]]
) -> pa.RecordBatchReader:
    """Read one state, from all workers.

    Args:
        shares: its files, by the number of the worker that keeps them.
    """
    if not any(shares.values()):
        return pa.RecordBatchReader.from_batches(COLUMNS, [])
    return stored_rows(folder, shares)


def _late_rows(
    folder: ObjectStore, checkpoint: Checkpoint, windows: Mapping[str, tuple[str, str]]
) -> pa.RecordBatchReader:
    """Read the rows that came late.

    Args:
        windows: of the states that keep them, the columns of the window that a row missed.
    """
    found = late_rows.kept_late(folder, checkpoint)
    parts = [late_rows.shown_late(name, rows, windows.get(name)) for name, rows in found.items()]
    rows = pa.concat_tables([late_rows.LATE_COLUMNS.empty_table(), *parts]).sort_by("epoch")
    return pa.RecordBatchReader.from_batches(late_rows.LATE_COLUMNS, rows.to_batches())


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
        found = store.log(definition).newest_checkpoint() or NOTHING_YET
        folder, read = store.folder(definition).child("state"), None
        if system == late_rows.LATE:
            windows = late_rows.missed_windows(StoredQuery(catalog, definition).roots)
            read = partial(_late_rows, folder, found, windows)
        files = found.files
        wanted = system.removeprefix(PREFIX)
        if system == NAME and NAME not in files:
            files = {**files, NAME: ()}
        if wanted in files:
            shares = {worker: each.get(wanted, ()) for worker, each in enumerate(found.shares)}
            read = partial(_state_rows, folder.child(found.folder(wanted)), shares)
        if read is not None:
            return cast(Reads, _KeptRows(table.name, table.location, read))
        known = ", ".join(f"{table.name}${PREFIX}{each}" for each in files)
        raise TableNotFoundError(
            f"{table.name} has no {system}: there is {known or 'no state yet'}", table=table.name
        )
    raise TableNotFoundError(
        f"{table.name} is the result of no query: it has no {system}", table=table.name
    )
