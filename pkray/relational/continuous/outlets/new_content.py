"""Replace the whole content of a table in one commit: readers see what was there, then the new.

The commits that can get in between are those that processes which were stopped had begun to make,
before the writer that replaces fenced them: the content is compared once more then, under the
identifier of the epoch's own commit.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import batch_of
from pkray.errors import CommitConflictError, SharedResultError
from pkray.relational.continuous.changes import Changes
from pkray.relational.continuous.operator import Epoch
from pkray.relational.continuous.outlets.gathered import Gathered
from pkray.relational.continuous.outlets.result_history import (
    REPLACED,
    WRITING,
    Commits,
    ResultHistory,
)
from pkray.relational.continuous.outlets.table_parts import KIND, TableRows
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.continuous.state.states import States
from pkray.relational.plan.nodes import Sink
from pkray.service.client.pusher import incoming
from pkray.service.client.writer import TableWriter
from pkray.storage.owned_directory import OwnedDirectory, default_local_directory
from pkray.table.table import Table


class NewContent(ABC):
    """Takes what a table is to hold, then commits it.

    Args:
        table: of the result.
        commits: of the query.
        epoch: that the content is as of. Its commit has the identifier before the epoch's own.
        since: the snapshot after which rows of others are not replaced; None: all are.
    """

    def __init__(self, table: Table, commits: Commits, epoch: int, since: int | None) -> None:
        self._table = table
        self._commits = commits
        self._epoch = epoch
        self._since = since
        self._history = ResultHistory(table)

    @property
    def is_done(self) -> bool:
        """Whether a run before this one has committed it, and nothing got in between."""
        return self._has_committed and self._is_alone()

    @property
    def _has_committed(self) -> bool:
        newest = self._history.newest_of(self._commits.query)
        return newest is not None and newest.incarnation == self._commits.incarnation

    @abstractmethod
    def give(self, changes: Changes, epoch: Epoch) -> None:
        """Take changes of the epoch."""

    @abstractmethod
    def fill(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Take rows as the table has them."""

    def commit(self, writer: TableWriter, properties: dict[str, str]) -> None:
        """Make the table hold what was taken; done again it changes nothing.

        Raises:
            CommitConflictError: a process that was fenced had begun a commit, which got in between;
                the next run compares again.
            SharedResultError: others wrote rows that are not to be replaced.
        """
        if self.is_done:
            return
        if self._since is not None:
            self._check_rows_of_others(self._since)
        latest = self._history.latest_id
        made = {**properties, REPLACED: str(latest)}
        self._replace(writer, self._epoch + int(self._has_committed), latest, made)
        if not self._is_alone():
            raise CommitConflictError(
                f"rows were written to {self._table.name} while its content was replaced: it is "
                "compared again",
                table=self._table.name,
            )

    def _check_rows_of_others(self, since: int) -> None:
        writers = tuple(self._history.others_since(since, self._commits.query))
        if writers:
            raise SharedResultError(
                f"{self._table.name} has rows that others wrote after query {self._commits.query} "
                f"was begun, and before it gave its first ones: {', '.join(writers)}; begin it "
                "anew with replace=True to have the whole content go, or give another table",
                table=self._table.name,
                query=self._commits.query,
                writers=writers,
            )

    def _is_alone(self) -> bool:
        """Whether nobody wrote between the content that was replaced and its replacement."""
        for snapshot in self._history.since(0):
            said = snapshot.properties or {}
            is_own = snapshot.commit_user == self._commits.user
            if is_own and REPLACED in said and snapshot.commit_kind in WRITING:
                between = self._history.since(int(said[REPLACED]))
                written = (each for each in between if each.id < snapshot.id)
                return not any(each.commit_kind in WRITING for each in written)
        return True

    @abstractmethod
    def _replace(
        self, writer: TableWriter, identifier: int, latest: int, properties: dict[str, str]
    ) -> None:
        """Commit what replaces the content as of a snapshot."""

    @abstractmethod
    def close(self) -> None:
        """Forget what was taken."""


class Difference(NewContent):
    """Commits the rows that differ: what follows the table's changes sees them."""

    def __init__(
        self,
        table: Table,
        commits: Commits,
        epoch: int,
        since: int | None,
        root: Sink,
        memory: int = 256 << 20,
    ) -> None:
        super().__init__(table, commits, epoch, since)
        self._states = States(memory=memory)
        self._wanted = Gathered(self._states.open, 0, root, table.primary_keys)

    def give(self, changes: Changes, epoch: Epoch) -> None:
        self._wanted.give(changes, epoch)
        self._states.fit()

    def fill(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._wanted.fill(batches)

    def _replace(
        self, writer: TableWriter, identifier: int, latest: int, properties: dict[str, str]
    ) -> None:
        if latest:
            there = self._table.at(snapshot_id=latest).to_batches(self._wanted.schema.names)
        else:
            there = iter(())
        write_difference(there, self._wanted, writer)
        writer.commit(identifier, properties=properties)

    def close(self) -> None:
        self._states.close()


class Overwriting(NewContent):
    """Commits all rows anew: merge engines that add rows up cannot take single ones back."""

    def __init__(
        self, table: Table, commits: Commits, epoch: int, since: int | None, rows: TableRows
    ) -> None:
        super().__init__(table, commits, epoch, since)
        self._rows = rows
        self._folder = OwnedDirectory(f"{default_local_directory()}/queries")
        self._paths: list[str] = []

    def give(self, changes: Changes, epoch: Epoch) -> None:
        self._keep(self._rows.of(changes))

    def fill(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self._keep(_of_kind(batch, "+I"))

    def _keep(self, rows: pa.RecordBatch) -> None:
        path = f"{self._folder.path}/{len(self._paths)}.arrow"
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, rows.schema) as writer:
            writer.write_batch(rows)
        self._paths.append(path)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for path in self._paths:
            with pa.memory_map(path) as file, pa.ipc.open_stream(file) as reader:
                for batch in reader:
                    yield from incoming(batch, self._table.schema, KIND, self._rows.missing)

    def _replace(
        self, writer: TableWriter, identifier: int, latest: int, properties: dict[str, str]
    ) -> None:
        named = (self._commits.user, identifier)
        self._table._replace_all(self._batches, named, latest, properties)

    def close(self) -> None:
        self._folder.close()


def write_difference(
    there: Iterable[pa.RecordBatch], wanted: Gathered, writer: TableWriter
) -> None:
    """Write what makes a table hold what was gathered, and take that out of what was gathered.

    Args:
        there: the rows of the table, with the columns of `wanted`.
    """
    state = wanted.state
    for batch in there:
        rows = wanted.fitted(batch)
        keys = wanted.keys(rows)
        found = state.get(keys)
        _write(writer, rows.filter(~found.among(rows.num_rows)), "-D")
        old = rows.take(found.positions)
        new = batch_of(found.rows.columns, wanted.schema, len(found.positions))
        _write(writer, new.filter(_differs(old, new)), "+U")
        state.remove(keys.take(found.positions))
    for left in state.batches():
        values = left.columns[1 : len(wanted.schema) + 1]
        _write(writer, batch_of(values, wanted.schema, left.num_rows), "+I")


def _write(writer: TableWriter, rows: pa.RecordBatch, kind: str) -> None:
    if rows.num_rows:
        writer.write(_of_kind(rows, kind), row_kinds=KIND)


def _of_kind(rows: pa.RecordBatch, kind: str) -> pa.RecordBatch:
    """Put the kind that all rows are of before their columns."""
    columns = [pa.repeat(pa.scalar(kind), rows.num_rows), *rows.columns]
    return pa.RecordBatch.from_arrays(columns, names=[KIND, *rows.schema.names])


def _differs(old: pa.RecordBatch, new: pa.RecordBatch) -> np.ndarray:
    """Say of each row whether it differs in any column."""
    sides = [encoded(each.columns, each.num_rows) for each in (old, new)]
    return np.asarray(pc.not_equal(*sides)).astype(bool)


def new_content(
    table: Table,
    commits: Commits,
    epoch: int,
    root: Sink,
    rows: TableRows,
    since: int | None = None,
) -> NewContent:
    """Choose how the content of a table is replaced.

    Args:
        since: as of `NewContent`.
    """
    options = table.schema.core
    if options.merge_engine == "deduplicate" and not options.sequence_field:
        return Difference(table, commits, epoch, since, root)
    return Overwriting(table, commits, epoch, since, rows)
