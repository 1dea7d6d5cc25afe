"""A table's changes as a streaming DataFrame, through Spark's Python Data Source API."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pkray.arguments.facade import ColumnNames, Label, checked
from pkray.changelog.change_history import ChangeHistory
from pkray.changelog.changes import check_streamable, warn_of_cost
from pkray.changelog.planner import ChangePlanner
from pkray.changelog.progress import Progress
from pkray.changelog.request import ChangeRequest
from pkray.changelog.splits import ChangeSplit
from pkray.changelog.start import Position, Start, StartMode
from pkray.errors import OptionError, SnapshotNotFoundError
from pkray.scan.moment import Timestamp
from pkray.spark.arguments import Session, check_session, check_table
from pkray.spark.bound_source import load
from pkray.spark.failure import typed
from pkray.spark.types import spark_schema, to_arrow_schema, to_exchange
from pkray.storage.branch_store import main_and_history
from pkray.storage.location import TableLocation

if TYPE_CHECKING:
    from pkray.table.table import Table

FORMAT = "pkray-changes"
_TRIES = 10
"""Snapshots that may expire at the very moment at which a consumer is to keep them."""


@checked
@typed()
def read_stream(
    spark: Session,
    table: Table,
    *,
    mode: StartMode | None = None,
    from_snapshot: int | None = None,
    from_timestamp: Timestamp | None = None,
    consumer_id: Label | None = None,
    normalize: bool = False,
    columns: ColumnNames | None = None,
    filter: object = None,
    max_snapshots: int | None = None,
) -> DataFrame:
    """Stream a table's changes: ``_row_kind``, ``_snapshot_id``, then its columns.

    The table as it is comes as the first micro-batch, of +I; each later one has the changes of
    the snapshots committed meanwhile. A Spark partition has all changes of a bucket, in their
    order. The query's checkpoint keeps the place.

    Args:
        mode, from_snapshot, from_timestamp, normalize, columns, filter: as of ``Table.stream``.
        consumer_id: keeps what is not read yet from expiring; a query without a checkpoint goes
            on where the consumer was. Default the table's ``consumer-id``.
        max_snapshots: of which a micro-batch has the changes at most. Default all there are.

    Raises:
        OptionError: arguments that contradict each other.
        UnsupportedError: as of ``Table.stream``.
    """
    check_table("read_stream", table)
    check_session("read_stream", spark)
    options = table.schema.core
    if max_snapshots is not None and max_snapshots < 1:
        raise OptionError(f"max_snapshots is {max_snapshots}: give 1 or more", value=max_snapshots)
    if normalize:
        warn_of_cost(table.name, options)
    else:
        check_streamable(table.name, options)
    request = StreamRequest(
        table.location,
        ChangeRequest.from_arguments(table.location, table.schema, columns, filter),
        Start.from_arguments(options, mode, from_snapshot, from_timestamp),
        normalize,
        options.consumer_id if consumer_id is None else consumer_id,
        max_snapshots,
    )
    return load(spark, spark.readStream, ChangeSource, request)


@dataclass(frozen=True)
class StreamRequest:
    """The changes to stream."""

    location: TableLocation
    changes: ChangeRequest
    start: Start
    normalize: bool
    consumer_id: Label | None
    max_snapshots: int | None


class ChangeSource(DataSource):
    """The streaming source of `read_stream`."""

    request: ClassVar[StreamRequest | None] = None

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        if self.request is None:
            raise OptionError(f"the source {FORMAT!r} is opened by pkray.spark.read_stream")
        self._request = self.request

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return spark_schema(self._request.changes.arrow_schema)

    def streamReader(self, schema: StructType) -> ChangeReader:  # noqa: N802
        return ChangeReader(self._request, schema)


class SplitsPartition(InputPartition):
    """Splits to be read one after the other, as a Spark partition."""

    def __init__(self, splits: Sequence[ChangeSplit]) -> None:
        super().__init__(None)
        self.splits = splits


class ChangeReader(DataSourceStreamReader):
    """Plans splits on the driver, reads them on executors.

    An offset is the next snapshot, and before the first micro-batch the one whose rows come first.
    """

    def __init__(self, request: StreamRequest, schema: StructType) -> None:
        self._request = request
        self._exchange = to_arrow_schema(schema)
        self._plan: tuple[ChangeHistory, ChangePlanner, Progress | None] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        history, _, progress = self._open()
        position = self._resumed(progress)
        for _ in range(_TRIES):
            if position is not None:
                break
            found = self._request.start.find(history)
            if found is None:
                raise SnapshotNotFoundError(
                    f"no snapshot of {self._request.location.name} was made by a compaction: "
                    "compact the table, or begin in another mode than compacted-full"
                )
            if progress is None or progress.begin(found):
                position = found
        if position is None:
            raise SnapshotNotFoundError(
                f"snapshots of {self._request.location.name} expired before consumer "
                f"{self._request.consumer_id!r} could keep one: have the table keep more of them"
            )
        content = position.content.id if position.content is not None else None
        return {"next": position.next_id, "content": content}

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: object = None
    ) -> dict[str, Any]:
        """Return the offset up to which to read.

        Args:
            start, limit: Spark before 4.2 passes neither.
        """
        latest = self._open()[0].latest()
        following = latest.id + 1 if latest is not None else 1
        if start is not None:
            if start["content"] is not None:
                following = start["next"]
            elif self._request.max_snapshots is not None:
                following = min(following, start["next"] + self._request.max_snapshots)
        return {"next": following, "content": None}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        history, planner, _ = self._open()
        if end["next"] < start["next"]:
            raise SnapshotNotFoundError(
                f"{self._request.location.name} was rolled back to snapshot {end['next'] - 1} "
                f"after its changes up to {start['next'] - 1} were read: begin a new query with "
                "a new checkpoint",
                snapshot_id=start["next"],
                latest=end["next"] - 1,
            )
        splits: list[ChangeSplit] = []
        if start["content"] is not None:
            content = history.whole(start["content"])
            splits += planner.content(content, self._request.location)
        has_changes = end["next"] > start["next"]
        for number in range(start["next"], end["next"]):
            splits += planner.changes(history.find(number))
        if not has_changes:
            return [SplitsPartition([split]) for split in splits]
        return [SplitsPartition(together) for together in _in_order(splits)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SplitsPartition)
        for split in partition.splits:
            for batch in split.read():
                yield to_exchange(batch, self._exchange)

    def commit(self, end: dict[str, Any]) -> None:
        """Note that all before an offset was taken."""
        progress = self._open()[2]
        if progress is not None:
            progress.reached(end["next"])

    def stop(self) -> None:
        """Do nothing, as there is nothing to end."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plan": None}

    def _open(self) -> tuple[ChangeHistory, ChangePlanner, Progress | None]:
        if self._plan is None:
            request = self._request
            store = request.location.open()
            history = ChangeHistory(store)
            planner = ChangePlanner(store, request.changes, history.whole, request.normalize)
            progress = None
            if request.consumer_id is not None:
                of_branch = main_and_history(store)[1]
                progress = Progress(of_branch, request.consumer_id, looks_back=planner.looks_back)
            self._plan = history, planner, progress
        return self._plan

    def _resumed(self, progress: Progress | None) -> Position | None:
        if progress is None or self._request.changes.schema.core.consumer_ignore_progress:
            return None
        consumer = progress.resume()
        if consumer is None or consumer.is_loading:
            return None
        return Position(consumer.next_snapshot)


def _in_order(splits: Sequence[ChangeSplit]) -> list[list[ChangeSplit]]:
    """Group splits that may have changes of one key together, in their order."""
    whole = {split.partition for split in splits if split.bucket is None}
    groups: dict[tuple[bytes, int | None], list[ChangeSplit]] = defaultdict(list)
    for split in splits:
        bucket = None if split.partition in whole else split.bucket
        groups[split.partition, bucket].append(split)
    return list(groups.values())
