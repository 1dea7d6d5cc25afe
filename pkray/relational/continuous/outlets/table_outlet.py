"""A keyed table as the result of a query."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.operator import Epoch
from pkray.relational.continuous.outlets.conflicts import RETRACTING
from pkray.relational.continuous.outlets.outlets import Outlet
from pkray.relational.continuous.outlets.table_parts import KIND, TablePart, TableRows
from pkray.relational.continuous.watermarks import LAST_WATERMARK
from pkray.service.client.push_session import SpoolTarget
from pkray.service.protocol import PushReport
from pkray.table.table import Table

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
        self._digest = digest
        missing = set(table.schema.names) - set(target)
        self._rows = TableRows(
            tuple(target),
            tuple(table.primary_keys),
            table.schema.core.merge_engine in RETRACTING,
            "null" if missing else "error",
        )
        self._writer = table.open_writer(user, missing=self._rows.missing)
        self._has_rows = False
        self._reports: tuple[PushReport, ...] = ()

    def give(self, changes: Changes, epoch: Epoch) -> None:
        self._writer.write(self._rows.of(changes), row_kinds=KIND)
        self._has_rows = True

    def part(self) -> TablePart | None:
        target = self._writer.target()
        if isinstance(target, SpoolTarget) or target.stages_rows:
            return None
        return TablePart(self._rows, target)

    def add(self, reports: Sequence[PushReport]) -> None:
        self._reports = tuple(reports)

    def commit(
        self, epoch: Epoch, positions: Mapping[str, int], watermarks: Mapping[str, int]
    ) -> None:
        if not self._has_rows and not self._reports:
            return
        properties = {
            SOURCES: json.dumps(dict(positions)),
            EPOCH: str(epoch.number),
            PLAN: self._digest,
        }
        if watermarks:
            properties[WATERMARKS] = json.dumps(dict(watermarks))
        mark = _snapshot_watermark(epoch.next_watermark)
        self._writer.commit(
            epoch.number + 1, watermark=mark, properties=properties, reports=self._reports
        )
        self._has_rows, self._reports = False, ()

    def close(self) -> None:
        self._writer.close()


def _snapshot_watermark(micros: int | None) -> int | None:
    """Give event time as snapshots have it: epoch milliseconds."""
    if micros is None:
        return None
    return _LAST_MILLIS if micros >= LAST_WATERMARK else micros // 1000
