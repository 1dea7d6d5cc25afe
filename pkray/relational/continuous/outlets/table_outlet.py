"""A keyed table as the result of a query."""

from collections.abc import Mapping, Sequence

from pkray.errors import QueryDivergedError
from pkray.metadata.snapshot_marks import mark_of
from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.log.log import WAYS_ON, Committed
from pkray.relational.continuous.operator import Epoch
from pkray.relational.continuous.outlets.new_content import NewContent, new_content
from pkray.relational.continuous.outlets.outlets import Outlet
from pkray.relational.continuous.outlets.result_history import WRITERS, Commits, ResultHistory
from pkray.relational.continuous.outlets.table_parts import KIND, TablePart, TableRows
from pkray.relational.continuous.watermarks import LAST_WATERMARK
from pkray.relational.plan.nodes import Sink
from pkray.service.client.push_session import SpoolTarget
from pkray.service.protocol import PushReport
from pkray.storage.object_store import together
from pkray.table.table import Table

_LAST_MILLIS = 2**63 - 1
"""The watermark of a snapshot after which nothing comes."""


class TableOutlet(Outlet):
    """Writes a result into a table: each epoch with changes is one commit.

    Commits are named by the incarnation of the query and the epoch, so that an epoch that is run
    again is not committed twice.

    Args:
        root: of the plan, down to the table.
        commits: of the query.
        last: what the checkpoint says was committed last; None: nothing.
        replaces: whether the first epoch replaces the whole content of the table.
        since: the snapshot after which rows of others are not replaced; None: all are.

    Attributes:
        name: of the table.
        last: what was committed last.
    """

    takes_parts = True

    def __init__(
        self,
        table: Table,
        root: Sink,
        commits: Commits,
        last: Committed | None = None,
        *,
        replaces: bool = False,
        since: int | None = None,
    ) -> None:
        self.name = table.name
        self._table = table
        self._commits = commits
        self._rows = TableRows.into(table, root)
        self._history = ResultHistory(table)
        self.last = last
        self._writer = table.open_writer(commits.user, missing=self._rows.missing)
        self._new: NewContent | None = None
        if replaces:
            self._new = new_content(table, commits, 0, root, self._rows, since)
        self._has_rows = False
        self._reports: tuple[PushReport, ...] = ()

    def give(self, changes: Changes, epoch: Epoch) -> None:
        if self._new is not None:
            self._new.give(changes, epoch)
        else:
            self._writer.write(self._rows.of(changes), row_kinds=KIND)
            self._has_rows = True

    def part(self) -> TablePart | None:
        if self._new is not None:
            return None
        target = self._writer.target()
        if isinstance(target, SpoolTarget) or target.stages_rows:
            return None
        return TablePart(self._rows, target)

    def add(self, reports: Sequence[PushReport]) -> None:
        self._reports = tuple(reports)

    def commit(
        self, epoch: Epoch, positions: Mapping[str, int], watermarks: Mapping[str, int]
    ) -> None:
        if self._new is None and not self._has_rows and not self._reports:
            return
        _, told = together(self._table.location.open(), self._check_last, self._history.told)
        properties = self._commits.properties(positions, epoch.number, watermarks)
        properties[WRITERS] = told
        if self._new is not None:
            self._replace(self._new, properties)
            return
        mark = _snapshot_watermark(epoch.next_watermark)
        made = self._writer.commit(
            epoch.number + 1, watermark=mark, properties=properties, reports=self._reports
        )
        self._has_rows, self._reports = False, ()
        if made is not None:
            self.last = Committed(epoch.number, made.id, mark_of(made))

    def _replace(self, new: NewContent, properties: dict[str, str]) -> None:
        self._history.forget_before(self._history.latest_id)
        new.commit(self._writer, {**properties, WRITERS: self._history.told()})
        self._new = None
        new.close()
        made = self._history.newest_of(self._commits.query)
        self.last = made.committed if made is not None else None

    def _check_last(self) -> None:
        """Check that the table holds what this query committed to it.

        Raises:
            QueryDivergedError: it was rolled back, or another table is in its place.
        """
        if self.last is not None and not self._history.has(self.last.snapshot, self.last.mark):
            raise gone(self._commits.query, self.name, self.last)

    def close(self) -> None:
        if self._new is not None:
            self._new.close()
        self._writer.close()


def gone(query: str, table: str, last: Committed) -> QueryDivergedError:
    """Make the error for a result that lost what its query committed."""
    return QueryDivergedError(
        f"the result {table} of query {query} has no more the snapshot {last.snapshot} that epoch "
        f"{last.epoch} committed: it was rolled back, or another table is in its place; {WAYS_ON}",
        query=query,
        table=table,
        expected=last.snapshot,
    )


def _snapshot_watermark(micros: int | None) -> int | None:
    """Give event time as snapshots have it: epoch milliseconds."""
    if micros is None:
        return None
    return _LAST_MILLIS if micros >= LAST_WATERMARK else micros // 1000
