"""The changes of some snapshots as a Ray Dataset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import ray.data
from ray.data import Dataset
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from pkray import spans
from pkray.arguments.facade import SnapshotId, checked
from pkray.changelog.splits import ChangeSplit
from pkray.ray_data.table_source import check_table
from pkray.storage.location import TableLocation

if TYPE_CHECKING:
    from ray.data.context import DataContext

    from pkray.table.table import Table


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
        tasks = min(max(parallelism, 1), len(buckets))
        shares: list[list[ChangeSplit]] = [[] for _ in range(tasks)]
        for number, splits in enumerate(buckets.values()):
            shares[number % tasks] += splits
        with spans.span("scan", table=self._location.name):
            envelope = spans.envelope()
        known = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [
            ReadTask(
                partial(_read, self._location, share, self._schema, envelope),
                known,
                self._schema,
                per_task_row_limit,
            )
            for share in shares or [[]]
        ]


def _read(
    location: TableLocation, splits: Sequence[ChangeSplit], schema: pa.Schema, envelope: str | None
) -> Iterator[pa.Table]:
    return spans.over("task", _rows(location, splits, schema), envelope)


def _rows(
    location: TableLocation, splits: Sequence[ChangeSplit], schema: pa.Schema
) -> Iterator[pa.Table]:
    store = location.open()
    for split in splits:
        for batch in split.read(store):
            yield pa.Table.from_batches([batch])
    if not splits:
        yield schema.empty_table()
