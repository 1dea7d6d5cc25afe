"""Tables, and the changes of some snapshots, as Ray Datasets, read by tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import ray.data
from ray.data import Dataset
from ray.data._internal.arrow_block import _BATCH_SIZE_PRESERVING_STUB_COL_NAME as UNNAMED
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask
from ray.data.expressions import BinaryExpr, ColumnExpr, Expr, LiteralExpr, Operation

from pkray import spans
from pkray.arguments.facade import ColumnNames, SnapshotId, checked
from pkray.changelog.splits import ChangeSplit
from pkray.errors import InputError
from pkray.metadata.schemas import unless_dropped
from pkray.scan.moment import Timestamp
from pkray.scan.plan import ScanPlanner
from pkray.scan.predicate import Predicate, pushed, with_pushed
from pkray.scan.split import Split, arrow_schema
from pkray.scan.view import SnapshotView
from pkray.schema.table_schema import TableSchema
from pkray.storage.location import TableLocation

if TYPE_CHECKING:
    from ray.data.context import DataContext

    from pkray.table.table import Table

_DECODED = 3
"""Bytes of rows a byte of a file: an estimate, by which Ray Data chooses how many tasks to make."""
_OPERATORS = {
    Operation.EQ: "=",
    Operation.LT: "<",
    Operation.LE: "<=",
    Operation.GT: ">",
    Operation.GE: ">=",
    Operation.IN: "in",
}
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@checked
def read(
    table: Table,
    *,
    columns: ColumnNames | None = None,
    filter: object = None,
    snapshot_id: int | None = None,
    tag: str | None = None,
    timestamp: Timestamp | None = None,
    watermark: int | None = None,
    override_num_blocks: int | None = None,
) -> Dataset:
    """Read a table's rows at one snapshot as a Ray Dataset.

    Tasks read buckets side by side, and single files of a bucket where they need no merging. The
    Dataset stays on its snapshot. What is selected of it and, by expressions, filtered later is
    read alone: ``read(table).filter(expr=col("k") > 5).select_columns(["v"])``.

    Args:
        columns: what to read; default every column.
        filter: as of ``Table.to_arrow``.
        snapshot_id, tag, timestamp, watermark: a moment as of ``Table.at``; default the newest
            snapshot now.
        override_num_blocks: of the Dataset; default as Ray Data chooses.

    Raises:
        InputError: a column the table does not have, a filter that is not understood, or what is
            no table.
        SnapshotNotFoundError: the snapshot has expired or was never made.
    """
    check_table("read", table)
    view = table.at(snapshot_id, tag, timestamp, watermark)
    arrow_schema(view.schema, columns)
    predicate = None if filter is None else Predicate.parse(filter, view.schema)
    names = tuple(view.schema.names if columns is None else columns)
    source = TableDatasource(TableRead(table.location, view, names, predicate))
    return ray.data.read_datasource(source, override_num_blocks=override_num_blocks)


@dataclass(frozen=True)
class TableRead:
    """Asks for rows of a table."""

    location: TableLocation
    view: SnapshotView
    columns: tuple[str, ...]
    predicate: Predicate | None

    def splits(self) -> list[Split]:
        """Plan the read: a split a bucket, or a file where no merging is needed."""
        planner = ScanPlanner(self.location, self.location.open(), self.view.schema)
        with unless_dropped(self.location):
            found = planner.scan(self.view.snapshot, self.columns, self.predicate)
        return [part for split in found for part in split.by_files()]


class TableDatasource(Datasource):
    """A table as Ray Data reads it, with projection and predicate push-down.

    Args:
        wanted: before anything is pushed down.
    """

    def __init__(self, wanted: TableRead) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._wanted = wanted
        self._projection_map: dict[str, str] | None = None
        self._planned: tuple[TableRead, list[Split]] | None = None

    def get_name(self) -> str:
        """Name the read in Ray Data's plans."""
        return f"pkray {self._wanted.location.name}"

    def supports_projection_pushdown(self) -> bool:
        return True

    def supports_predicate_pushdown(self) -> bool:
        return True

    def estimate_inmemory_data_size(self) -> int | None:
        """Estimate the bytes of all rows."""
        return sum(map(self._size, self._splits()))

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Share the splits among tasks of about the same size."""
        with spans.span("scan", table=self._wanted.location.name):
            return self._tasks(parallelism, per_task_row_limit, spans.envelope())

    def _tasks(
        self, parallelism: int, row_limit: int | None, envelope: str | None
    ) -> list[ReadTask]:
        columns = self._columns()
        expression = None if self._predicate_expr is None else self._predicate_expr.to_pyarrow()
        schema = arrow_schema(self._wanted.view.schema, columns)
        tasks = []
        for splits in _shared(self._splits(), parallelism) or [[]]:
            files = tuple(file.file_name for split in splits for file in split.files)
            known = BlockMetadata(
                num_rows=None,  # merging and filters leave fewer than the files have
                size_bytes=sum(map(self._size, splits)),
                input_files=files,
                exec_stats=None,
            )
            rows = partial(_rows, tuple(splits), columns, expression, schema)
            tasks.append(ReadTask(partial(_in_task, rows, envelope), known, schema, row_limit))
        return tasks

    def _columns(self) -> tuple[str, ...]:
        names = self._get_data_columns()
        return self._wanted.columns if names is None else tuple(names)

    def _splits(self) -> list[Split]:
        """Plan the read with what is pushed down by now."""
        wanted, pushed = self._wanted, self._predicate_expr
        needed = {*self._columns(), *columns_of(pushed)}
        unknown = sorted(needed - set(wanted.columns))
        if unknown:
            raise InputError(
                f"the Dataset of {wanted.location.name} has no column {', '.join(unknown)}: it has "
                f"{', '.join(wanted.columns)}",
                columns=unknown,
            )
        read = replace(wanted, columns=tuple(n for n in wanted.columns if n in needed))
        if pushed is not None:
            more = predicates_of(pushed, wanted.view.schema)
            read = replace(read, predicate=with_pushed(read.predicate, more))
        if self._planned is None or self._planned[0] != read:
            self._planned = read, read.splits()
        return self._planned[1]

    def _size(self, split: Split) -> int:
        size = sum(file.file_size for file in split.files)
        return _DECODED * size * len(split.columns) // len(split.schema.names)


def _in_task(rows: Callable[[], Iterator[pa.Table]], envelope: str | None) -> Iterator[pa.Table]:
    """Read rows for what whoever planned the task is at work on."""
    return spans.over("task", rows(), envelope)


def _rows(
    splits: Sequence[Split], columns: tuple[str, ...], expression: Any, schema: pa.Schema
) -> Iterator[pa.Table]:
    if not splits:
        yield schema.empty_table()
    for split in splits:
        for batch in split.read():
            rows = pa.Table.from_batches([batch])
            if expression is not None:
                rows = rows.filter(expression)
            if rows.num_rows and not columns:  # Ray Data counts the rows of some column
                yield pa.table({UNNAMED: pa.nulls(rows.num_rows)})
            elif rows.num_rows:
                yield rows.select(columns)


def _shared(splits: list[Split], parallelism: int) -> list[list[Split]]:
    """Share splits among at most so many tasks: the largest first, each to the least loaded."""
    shares: list[list[Split]] = [[] for _ in range(min(max(parallelism, 1), len(splits)))]
    loads = [0] * len(shares)
    for split in sorted(splits, key=lambda each: each.row_count, reverse=True):
        least = loads.index(min(loads))
        shares[least].append(split)
        loads[least] += split.row_count
    return shares


def check_table(function: str, given: object) -> None:
    """Raise an InputError for what is no table."""
    if not hasattr(given, "_open_push"):
        kind = type(given).__name__
        raise InputError(
            f"{function} takes a table, and got a {kind}: give what catalog.load_table(name) "
            "returns",
            type=kind,
        )


def predicates_of(expression: Expr, schema: TableSchema) -> Iterator[Predicate]:
    """Yield what of an expression can prune: its ANDed comparisons of a column with a literal."""
    if not isinstance(expression, BinaryExpr):
        return
    if expression.op == Operation.AND:
        yield from predicates_of(expression.left, schema)
        yield from predicates_of(expression.right, schema)
        return
    left, operator, right = expression.left, _OPERATORS.get(expression.op), expression.right
    if isinstance(left, LiteralExpr):
        left, operator, right = right, _MIRRORED.get(operator or ""), left
    if operator is None or not isinstance(left, ColumnExpr) or not isinstance(right, LiteralExpr):
        return
    found = pushed(left.name, operator, right.value, schema)
    if found is not None:
        yield found


def columns_of(expression: object) -> set[str]:
    """Name the columns that an expression reads."""
    if isinstance(expression, ColumnExpr):
        return {expression.name}
    if isinstance(expression, list | tuple):
        return set().union(*map(columns_of, expression))
    if isinstance(expression, Expr) and is_dataclass(expression):
        parts = [getattr(expression, each.name) for each in fields(expression)]
        return set().union(*map(columns_of, parts))
    return set()


@checked
def changes(
    table: Table,
    from_snapshot: SnapshotId,
    to_snapshot: SnapshotId,
    *,
    normalize: bool = False,
    override_num_blocks: int | None = None,
) -> Dataset:
    """Read what changed, snapshot by snapshot, as a Ray Dataset; as of ``Table.changelog``.

    Tasks read buckets side by side: the changes of a key come in their order, those of different
    buckets in any. ``_snapshot_id`` says which snapshot it was.

    Args:
        from_snapshot, to_snapshot: the first and the last one, both included.
        normalize: as of ``Table.changelog``.
        override_num_blocks: of the Dataset; default as Ray Data chooses.

    Returns:
        ``_row_kind`` ('+I', '-U', '+U', '-D'), ``_snapshot_id``, then the table's columns.

    Raises:
        InputError: what is no table.
        OptionError: the last one is before the first one.
        SnapshotNotFoundError: some of these changes have expired, or are still to come.
    """
    check_table("changes", table)
    reader = table._reads.changes().reader(normalize)
    splits = tuple(reader.splits(from_snapshot, to_snapshot))
    source = ChangesDatasource(table.location, splits, reader.schema)
    return ray.data.read_datasource(source, override_num_blocks=override_num_blocks)


class ChangesDatasource(Datasource):
    """Planned changes as Ray Data reads them.

    Args:
        schema: of their rows.
    """

    def __init__(
        self, location: TableLocation, splits: Sequence[ChangeSplit], schema: pa.Schema
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._location = location
        self._splits = splits
        self._schema = schema

    def get_name(self) -> str:
        """Name the read in Ray Data's plans."""
        return f"pkray changes of {self._location.name}"

    def estimate_inmemory_data_size(self) -> int | None:
        """Give None: what changed is not known before it is read."""
        return None

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Share the buckets among tasks: changes of a key are read by one, in their order."""
        buckets: defaultdict[tuple[bytes, int | None], list[ChangeSplit]] = defaultdict(list)
        for split in self._splits:
            buckets[split.partition, split.bucket].append(split)
        count = min(max(parallelism, 1), len(buckets))
        shares: list[list[ChangeSplit]] = [[] for _ in range(count)]
        for number, splits in enumerate(buckets.values()):
            shares[number % count] += splits
        with spans.span("scan", table=self._location.name):
            envelope = spans.envelope()
        known = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        tasks = []
        for share in shares or [[]]:
            rows = partial(_changed_rows, self._location, share, self._schema)
            reading = partial(_in_task, rows, envelope)
            tasks.append(ReadTask(reading, known, self._schema, per_task_row_limit))
        return tasks


def _changed_rows(
    location: TableLocation, splits: Sequence[ChangeSplit], schema: pa.Schema
) -> Iterator[pa.Table]:
    store = location.open()
    for split in splits:
        for batch in split.read(store):
            yield pa.Table.from_batches([batch])
    if not splits:
        yield schema.empty_table()
