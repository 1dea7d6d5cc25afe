"""A keyed table as the result of a query."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.operator import Epoch
from pkray.relational.continuous.outlets.conflicts import RETRACTING
from pkray.relational.continuous.outlets.outlets import Outlet
from pkray.relational.continuous.watermarks import LAST_WATERMARK
from pkray.relational.local.keys import codes
from pkray.schema.row_kind import DELETE, INSERT, SHORT
from pkray.table.table import Table

KIND = "_row_kind"
SOURCES, EPOCH, PLAN = "pkray.query.sources", "pkray.query.epoch", "pkray.query.plan"
WATERMARKS = "pkray.query.watermarks"
"""Properties of the snapshots of results: JSON of the positions of the sources, the epoch, the
digest of the plan; and, where windows are, JSON of the watermarks of operators in microseconds."""
_LAST_MILLIS = 2**63 - 1
"""The watermark of a snapshot after which nothing comes."""


class TableOutlet(Outlet):
    """Writes a result into a table: each epoch with changes is one commit.

    Commits are named by the query and the epoch, so that an epoch that is run again is not
    committed twice.

    Args:
        target: columns of the table, in the order of the result's.
        user: the commit user.
        digest: of the plan.
    """

    takes_parts = True

    def __init__(self, table: Table, target: Sequence[str], user: str, digest: str) -> None:
        self._table = table
        self._target = list(target)
        self._digest = digest
        self._takes_all = table.schema.core.merge_engine in RETRACTING
        missing = set(table.schema.names) - set(target)
        self._writer = table.open_writer(user, missing="null" if missing else "error")
        self._has_rows = False

    def give(self, changes: Changes, epoch: Epoch) -> None:
        if self._takes_all:
            last, kinds = changes, changes.kinds
        else:
            last = last_of_keys(changes, self._target, self._table.primary_keys)
            kinds = np.where(last.adds, INSERT, DELETE)
        columns = [pc.take(pa.array(SHORT), pa.array(kinds)), *last.rows.columns]
        rows = pa.RecordBatch.from_arrays(columns, names=[KIND, *self._target])
        self._writer.write(rows, row_kinds=KIND)
        self._has_rows = True

    def commit(
        self, epoch: Epoch, positions: Mapping[str, int], watermarks: Mapping[str, int]
    ) -> None:
        if not self._has_rows:
            return
        properties = {
            SOURCES: json.dumps(dict(positions)),
            EPOCH: str(epoch.number),
            PLAN: self._digest,
        }
        if watermarks:
            properties[WATERMARKS] = json.dumps(dict(watermarks))
        mark = _snapshot_watermark(epoch.next_watermark)
        self._writer.commit(epoch.number + 1, watermark=mark, properties=properties)
        self._has_rows = False

    def close(self) -> None:
        self._writer.close()


def _snapshot_watermark(micros: int | None) -> int | None:
    """Give event time as snapshots have it: epoch milliseconds."""
    if micros is None:
        return None
    return _LAST_MILLIS if micros >= LAST_WATERMARK else micros // 1000


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
