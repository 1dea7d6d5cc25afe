"""Sends one attempt's rows to the owners, a bounded number of batches ahead of the answers."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
from msgspec.structs import replace

from pkray.arguments.facade import checked_class
from pkray.errors import InputError
from pkray.lsm.keys.key_groups import detached
from pkray.lsm.writer.row_kinds import with_kinds
from pkray.options import DYNAMIC
from pkray.rows.input import Missing, conform, conform_deletes
from pkray.rows.python_values import to_column
from pkray.schema import row_kind
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import DataType
from pkray.service.calls import OwnerClient
from pkray.service.client.dynamic_client import DynamicClient, KeyClient
from pkray.service.client.routing import Router, RowRouting
from pkray.service.handles.handle import Pending
from pkray.service.protocol import Push, PushReport, RoutedBatch, SessionId

Send = Callable[[int, Push, RoutedBatch], Pending[None] | None]
"""Sends to the owner of that index; None where there is nothing to wait for."""

_MAX_IN_FLIGHT = 6
"""Batches sent and not answered: enough that owners never wait for the sender, few enough to
hold."""
_MAX_ROWS, _MAX_BYTES = 1 << 18, 16 << 20
"""Of a batch that is sent."""
_MAX_HELD = 4
"""A slice of more than so many times its size is copied: memtables would hold the rest with it."""


@checked_class
class Pusher:
    """Checks, routes and sends rows.

    Args:
        schema: the table's schema.
        owners: how many owners the table has.
        send: carries a batch to an owner.
        first: the attempt's first batch.
        assigner: asks owners for dynamic buckets, or for the places of keys that cross
            partitions, where the table has them.
    """

    def __init__(
        self,
        schema: TableSchema,
        owners: int,
        send: Send,
        first: Push,
        assigner: DynamicClient | None = None,
    ) -> None:
        self._schema = schema
        self._owners = owners
        self._assigner = assigner
        self._router = Router(schema) if schema.core.bucket != DYNAMIC else None
        self._tokens: dict[int, str] = {}
        self._placed = 0
        self._send = send
        self._first = first
        self._counts: dict[int, int] = {}
        self._rows = 0
        self._in_flight: deque[Pending[None]] = deque()

    def push(self, rows: object, row_kinds: str | None = None, missing: Missing = "error") -> None:
        """Send rows; ``row_kinds`` and ``missing`` as `incoming` takes them.

        Raises:
            InputError: the rows do not fit the table; nothing of them was sent.
        """
        for batch in incoming(rows, self._schema, row_kinds, missing=missing):
            self.push_checked(batch)

    def push_checked(self, batch: pa.RecordBatch) -> None:
        """Send rows that `incoming` has checked."""
        self._rows += batch.num_rows
        batch, routing = self._routed(batch)
        self._deliver(routing.route(batch, self._owners))

    def _deliver(self, routes: dict[int, RoutedBatch]) -> None:
        for owner, routed in routes.items():
            index = self._counts.get(owner, 0)
            self._counts[owner] = index + 1
            pending = self._send(owner, replace(self._first, index=index), routed)
            if pending is not None:
                self._in_flight.append(pending)
        while len(self._in_flight) > _MAX_IN_FLIGHT:
            self._in_flight.popleft().result()

    def move_to(self, session: SessionId) -> None:
        """Go on in another session, to which all that was sent is sent again."""
        self._first = replace(self._first, session=session)

    def drain(self) -> None:
        """Forget the answers still to come."""
        self._in_flight.clear()

    @property
    def sent(self) -> dict[int, int]:
        """The number of batches sent, by owner."""
        return dict(self._counts)

    @property
    def tokens(self) -> dict[int, str]:
        """The tokens of the owners that said where rows go."""
        return dict(self._tokens)

    def settle(self) -> None:
        """Wait until every owner has taken its batches."""
        while self._in_flight:
            self._in_flight.popleft().result()

    def finish(self) -> PushReport:
        """Wait as `settle`, and say what was pushed."""
        self.settle()
        source, attempt = self._first.source, self._first.attempt
        return PushReport(source, attempt, self._rows, self.sent, self.tokens)

    def _routed(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, RowRouting]:
        """The rows to be sent for a batch, and where they go."""
        session = self._first.session
        if isinstance(self._assigner, KeyClient):
            placed = self._assigner.place(session, self._placed, batch, self._tokens)
            self._placed += 1
            return placed
        if self._assigner is not None:
            return batch, self._assigner.assign(session, batch, self._tokens)
        assert self._router is not None
        return batch, self._router.routing(batch)


def pushing(owners: Sequence[OwnerClient]) -> Send:
    """Make what pushes batches to owners."""
    return lambda owner, push, batch: owners[owner].push.submit(push, batch)


def incoming(
    rows: object, schema: TableSchema, row_kinds: str | None = None, missing: Missing = "error"
) -> Iterator[pa.RecordBatch]:
    """Shape rows as owners take them: the schema's columns and ``_VALUE_KIND``.

    Args:
        rows: a pa.Table, RecordBatch, pandas DataFrame or list of dicts.
        row_kinds: the column that holds the kinds; it is taken off unless the table has it.
            Without one the table's ``rowkind.field`` says them, or all are +I.
        missing: as `conform` takes it.

    Raises:
        InputError: the rows do not fit the table, or a row kind is none.
    """
    kinds: pa.Array | pa.ChunkedArray | None = None
    if row_kinds is not None:
        rows, kinds = _take_kinds(rows, row_kinds, schema)
    table = conform(rows, schema, missing=missing)
    if schema.core.rowkind_field is not None:
        kinds = row_kind.parse(table.column(schema.core.rowkind_field), schema.core.rowkind_field)
    yield from _in_batches(with_kinds(table, row_kind.INSERT if kinds is None else kinds))


def deletions(keys: object, schema: TableSchema) -> Iterator[pa.RecordBatch]:
    """Make keys into rows of kind -D, their other columns null."""
    table = conform_deletes(keys, schema)
    if schema.core.rowkind_field is not None:
        position = table.schema.get_field_index(schema.core.rowkind_field)
        words = pa.repeat(pa.scalar("-D"), table.num_rows)
        table = table.set_column(position, table.schema.field(position), words)
    yield from _in_batches(with_kinds(table, row_kind.DELETE))


def _in_batches(table: pa.Table) -> list[pa.RecordBatch]:
    size = table.nbytes
    rows = _MAX_BYTES * table.num_rows // max(1, size)
    if any(column.num_chunks > 1 for column in table.columns):
        table = table.combine_chunks()
    batches = table.to_batches(max_chunksize=max(1, min(_MAX_ROWS, rows)))
    if table.get_total_buffer_size() > _MAX_HELD * size:
        return [detached(batch) for batch in batches]
    return batches


def _take_kinds(
    rows: Any, column: str, schema: TableSchema
) -> tuple[object, pa.Array | pa.ChunkedArray]:
    if isinstance(rows, list):
        return _take_kinds_of_dicts(rows, column, schema)
    names = {field.name for field in schema.fields}
    if hasattr(rows, "iloc") and hasattr(rows, "columns"):
        _require_kinds(column, list(rows.columns))
        words = rows[column].astype(object).where(rows[column].notna(), None)
        kinds = row_kind.parse(to_column(words.tolist(), DataType("STRING"), column), column)
        return rows if column in names else rows.drop(columns=[column]), kinds
    table = _as_table(rows)
    _require_kinds(column, table.column_names)
    kinds = row_kind.parse(table.column(column), column)
    return table if column in names else table.drop_columns([column]), kinds


def _require_kinds(column: str, given: Sequence[object]) -> None:
    if column not in given:
        raise InputError(
            f"row_kinds names column {column!r}, which the rows do not have; they have "
            f"{', '.join(map(str, given))}",
            column=column,
            arguments=("row_kinds",),
        )


def _take_kinds_of_dicts(
    rows: list[dict[str, object]], column: str, schema: TableSchema
) -> tuple[object, pa.Array]:
    kinds = row_kind.parse(pa.array([row.get(column) for row in rows], pa.string()), column)
    if column in {field.name for field in schema.fields}:
        return rows, kinds
    return [{k: v for k, v in row.items() if k != column} for row in rows], kinds


def _as_table(rows: object) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    raise InputError(
        f"cannot take rows from {type(rows).__name__}: pass a pyarrow Table or RecordBatch, a "
        "pandas DataFrame, or a list of dicts",
        type=type(rows).__name__,
    )


class PushTarget(Protocol):
    """A small, picklable object with what a task needs to push."""

    @property
    def stages_rows(self) -> bool:
        """Whether the table's assigner keeps the rows until the commit."""

    def open(self, source: int, attempt: int) -> Pusher: ...
