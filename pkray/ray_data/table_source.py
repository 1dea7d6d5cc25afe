"""Tables as Ray Datasets, read by tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import ray.data
from ray.data import Dataset
from ray.data._internal.arrow_block import _BATCH_SIZE_PRESERVING_STUB_COL_NAME as UNNAMED
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from pkray import spans
from pkray.arguments.facade import ColumnNames, checked
from pkray.errors import InputError
from pkray.metadata.table_identity import unless_dropped
from pkray.ray_data.pushdown import columns_of, predicates_of
from pkray.scan.moment import Timestamp
from pkray.scan.plan import ScanPlanner
from pkray.scan.predicate import Predicate
from pkray.scan.pushed import with_pushed
from pkray.scan.split import Split, arrow_schema
from pkray.scan.view import SnapshotView
from pkray.storage.location import TableLocation

if TYPE_CHECKING:
    from ray.data.context import DataContext

    from pkray.table.table import Table

_DECODED = 3
"""Bytes of rows a byte of a file: an estimate, by which Ray Data chooses how many tasks to make."""


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
            reading = partial(_read, tuple(splits), columns, expression, schema, envelope)
            tasks.append(ReadTask(reading, known, schema, row_limit))
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


def _read(
    splits: Sequence[Split],
    columns: tuple[str, ...],
    expression: Any,
    schema: pa.Schema,
    envelope: str | None,
) -> Iterator[pa.Table]:
    return spans.over("task", _rows(splits, columns, expression, schema), envelope)


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
