"""Push a worker's part of a result's commit, which the first worker makes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.keys import codes
from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.outlets.conflicts import RETRACTING
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.plan.nodes import Sink
from pkray.rows.input import Missing
from pkray.schema.row_kind import DELETE, INSERT, SHORT
from pkray.service.client.pusher import Pusher, PushTarget
from pkray.service.protocol import PushReport
from pkray.table.table import Table

KIND = "_row_kind"


@dataclass(frozen=True)
class TableRows:
    """Makes rows of a table of net changes of a result; it pickles.

    Attributes:
        names: columns of the table, in the order of the result's.
        key: of the table.
        takes_all: whether the table takes rows back by itself, and is given every change.
        missing: as ``Table.open_writer`` takes it.
    """

    names: tuple[str, ...]
    key: tuple[str, ...]
    takes_all: bool
    missing: Missing

    @classmethod
    def into(cls, table: Table, sink: Sink) -> Self:
        """Say how rows of a table are made of those that go down to it."""
        target = tuple(sink.target)
        missing: Missing = "null" if set(table.schema.names) - set(target) else "error"
        retracts = table.schema.core.merge_engine in RETRACTING
        return cls(target, tuple(table.primary_keys), retracts, missing)

    def of(self, changes: Changes) -> pa.RecordBatch:
        """Make rows with their kinds in ``_row_kind``."""
        last, kinds = changes, changes.kinds
        if not self.takes_all:
            last = last_of_keys(changes, self.names, self.key)
            kinds = np.where(last.adds, INSERT, DELETE)
        columns = [pc.take(pa.array(SHORT), pa.array(kinds)), *last.rows.columns]
        return pa.RecordBatch.from_arrays(columns, names=[KIND, *self.names])

    def keys(self, changes: Changes) -> pa.Array:
        """Encode the table's keys: BINARY, one a change."""
        places = [self.names.index(name) for name in self.key]
        return encoded([changes.rows.column(place) for place in places], len(changes))


@dataclass(frozen=True)
class TablePart:
    """Tells workers where to push their parts of one commit; it pickles.

    Attributes:
        target: of the writer that commits.
    """

    rows: TableRows
    target: PushTarget


class PartWriter:
    """Pushes one worker's part of a commit to the owners.

    Args:
        worker: its number, from 1.
    """

    def __init__(self, part: TablePart, worker: int) -> None:
        self._part = part
        self._worker = worker
        self._pusher: Pusher | None = None

    def give(self, changes: Changes) -> None:
        """Push changes."""
        if self._pusher is None:
            self._pusher = self._part.target.open(self._worker, 0)
        rows = self._part.rows
        self._pusher.push(rows.of(changes), KIND, rows.missing)

    def finish(self) -> PushReport | None:
        """Wait until the owners have all; None where there was nothing."""
        return None if self._pusher is None else self._pusher.finish()


def last_of_keys(changes: Changes, target: Sequence[str], key: Sequence[str]) -> Changes:
    """Leave the last change of each key of the table: of net changes the row that comes, if any.

    A new row may stand before the one that it replaces.
    """
    if not changes.is_append:
        changes = changes.take(np.argsort(changes.adds, kind="stable"))
    places = [list(target).index(name) for name in key]
    groups = codes([changes.rows.column(place) for place in places], len(changes))
    last = np.empty(groups.count, np.int64)
    last[groups.of_row] = np.arange(len(changes))
    return changes if len(last) == len(changes) else changes.take(np.sort(last))
