"""A table whose pushes can be told to fail, and which shows what was asked of it."""

from __future__ import annotations

import pyarrow as pa

from pkray.errors import LostBatchesError
from pkray.schema.table_schema import TableSchema
from pkray.service.client.push_session import SpoolTarget
from pkray.service.client.spool import read_spool
from pkray.service.protocol import SessionId


class StandInTable:
    """Commits keep the pushed rows; the first ``losses`` commits lose them."""

    name = "default.stand_in"

    def __init__(self, directory, schema: pa.Schema, primary_keys, losses: int = 0) -> None:
        self.schema = TableSchema.create(schema, list(primary_keys), [], {"bucket": "2"}, None, 0)
        self.directory = str(directory)
        self.losses = losses
        self.names: list[tuple[str, int]] = []
        self.aborted = 0
        self.committed: dict[tuple[str, int], pa.Table] = {}

    def _open_push(
        self, commit_user: str, commit_identifier: int, alone: bool = False
    ) -> StandInSession:
        self.names.append((commit_user, commit_identifier))
        return StandInSession(self, (commit_user, commit_identifier))

    def to_arrow(self) -> pa.Table:
        """All that was committed."""
        return pa.concat_tables(self.committed.values())


class StandInSession:
    def __init__(self, table: StandInTable, name: tuple[str, int]) -> None:
        self._table = table
        self._name = name
        session = SessionId(name[0], len(table.names))
        directory = f"{table.directory}/{session.generation}"
        self._target = SpoolTarget(directory, table.schema, 2, session)

    @property
    def is_committed(self) -> bool:
        return self._name in self._table.committed

    @property
    def committed(self) -> pa.Table | None:
        return self._table.committed.get(self._name)

    def target(self) -> SpoolTarget:
        return self._target

    def commit(self, reports) -> pa.Table:
        if self._table.losses:
            self._table.losses -= 1
            raise LostBatchesError("lost on purpose", sources=[0])
        batches = [
            batch.rows
            for report in reports
            for owner in report.batches
            for batch in read_spool(self._target.path(report.source, report.attempt, owner))
        ]
        rows = pa.Table.from_batches(batches).drop_columns(["_VALUE_KIND"])
        self._table.committed[self._name] = rows
        return rows

    def abort(self) -> None:
        self._table.aborted += 1
