"""A table's changes as micro-batches: where they begin and end, and what they hold."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pkray import spans
from pkray.arguments.facade import Label
from pkray.changelog.change_history import ChangeHistory
from pkray.changelog.planner import ChangePlanner
from pkray.changelog.progress import Progress
from pkray.changelog.request import ROW_KIND, SNAPSHOT_ID, ChangeRequest
from pkray.changelog.splits import ChangeSplit
from pkray.changelog.start import Position, Start
from pkray.errors import SnapshotNotFoundError, TableReplacedError, UnsupportedError
from pkray.metadata.schemas import TableIdentity
from pkray.metadata.snapshot_marks import SnapshotMarks
from pkray.spark.types import spark_schema, to_arrow_schema, to_exchange
from pkray.storage.branch_store import main_and_history
from pkray.storage.location import TableLocation

_limits: Any = None
with contextlib.suppress(ImportError):
    from pyspark.sql.streaming import datasource as _limits
LIMITS_ROWS = _limits is not None
"""Whether this Spark asks for offsets within a limit: before 4.2 it does not."""
_AvailableNow: Any = _limits.SupportsTriggerAvailableNow if LIMITS_ROWS else object
_TRIES = 10
"""Snapshots that may expire at the very moment at which a consumer is to keep them."""


@dataclass(frozen=True)
class StreamRequest:
    """The changes to stream.

    Args:
        tag: where the stream begins, instead of ``start``.
        max_snapshots: of which a micro-batch has the changes at most.
        max_rows: in a micro-batch, at most; but a split comes whole.
        labelled: rows have ``_row_kind`` and ``_snapshot_id``; else `row_kinds` counts.
        row_kinds: the column that says what each row does; None: rows are upserts, and where one
            was deleted the stream ends.
    """

    location: TableLocation
    changes: ChangeRequest
    start: Start
    normalize: bool = False
    consumer_id: Label | None = None
    max_snapshots: int | None = None
    tag: str | None = None
    max_rows: int | None = None
    labelled: bool = True
    row_kinds: str | None = None

    @property
    def schema(self) -> StructType:
        """Spark's schema of the rows."""
        fields = list(self.changes.arrow_schema)
        if self.labelled:
            return spark_schema(pa.schema(fields))
        kinds = [] if self.row_kinds is None else [fields[0].with_name(self.row_kinds)]
        return spark_schema(pa.schema([*kinds, *fields[2:]]))

    def with_columns(self, names: Sequence[str]) -> StreamRequest:
        """Ask for some of the table's columns."""
        columns = [name for name in names if name != self.row_kinds]
        schema, predicate = self.changes.schema, self.changes.predicate
        changes = ChangeRequest.from_arguments(self.location, schema, columns)
        return replace(self, changes=replace(changes, predicate=predicate))

    def shaped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Give rows the columns asked for.

        Raises:
            UnsupportedError: one was deleted, and there is no column that would say so.
        """
        if self.labelled:
            return rows
        kinds = rows.column(ROW_KIND)
        values = [name for name in rows.schema.names if name not in (ROW_KIND, SNAPSHOT_ID)]
        if self.row_kinds is not None:
            columns = [kinds, *(rows.column(name) for name in values)]
            return pa.RecordBatch.from_arrays(columns, names=[self.row_kinds, *values])
        deleted = pc.equal(kinds, "-D")
        if pc.any(deleted).as_py():
            number = rows.column(SNAPSHOT_ID).filter(deleted)[0].as_py()
            raise UnsupportedError(
                f"snapshot {number} of {self.location.name} deleted rows, and the stream has no "
                "column that says so: give the option row-kind-column",
                table=self.location.name,
                snapshot_id=number,
            )
        return rows.filter(pc.not_equal(kinds, "-U")).select(values)


class Place(NamedTuple):
    """A place in a table's changes, as Spark's checkpoint keeps it.

    Args:
        next: the snapshot whose changes are read next.
        content: the snapshot whose rows are read before; None: none.
        split: how many splits of the content, or of the next snapshot, were read.
        table: the table's identity; None: a checkpoint that says nothing of it.
        mark: of the snapshot before the next, as `SnapshotMarks` has it; None: not known.
    """

    next: int
    content: int | None = None
    split: int = 0
    table: str | None = None
    mark: str | None = None

    @classmethod
    def parse(cls, offset: dict[str, Any]) -> Self:
        """Parse an offset of a checkpoint, of older versions too."""
        return cls(**{name: offset[name] for name in cls._fields if name in offset})

    @property
    def offset(self) -> dict[str, Any]:
        return self._asdict()


_WHERE = Place._fields.index("split") + 1
"""The fields that say where it is."""


class SplitsPartition(InputPartition):
    """Splits to be read one after the other, as a Spark partition.

    Args:
        envelope: of the scan that they are part of.
    """

    def __init__(self, splits: Sequence[ChangeSplit], envelope: str | None = None) -> None:
        super().__init__(None)
        self.splits = splits
        self.envelope = envelope


class ChangeReader(DataSourceStreamReader, _AvailableNow):  # type: ignore[misc] # as Spark has it
    """Plans splits on the driver, reads them on executors. An offset is a `Place`."""

    def __init__(self, request: StreamRequest, schema: StructType) -> None:
        self._request = request
        self._exchange = to_arrow_schema(schema)
        self._end: int | None = None
        self._plan: _Plan | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        plan = self._open()
        return plan.placed(plan.first()).offset

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        rows = self._request.max_rows
        return _limits.ReadAllAvailable() if rows is None else _limits.ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note what there is now, beyond which nothing is read."""
        self._end = self._open().following()

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: object = None
    ) -> dict[str, Any]:
        """Return the offset up to which to read.

        Args:
            start, limit: Spark before 4.2 passes neither.
        """
        plan = self._open()
        following = plan.following()
        if start is None:
            return plan.placed(Place(following)).offset
        begin = Place.parse(start)
        if plan.has_turned or following != begin.next:
            plan.check(begin, following)
        following = max(begin.next, min(following, self._end or following))
        if begin.content is None and self._request.max_snapshots is not None:
            following = min(following, begin.next + self._request.max_snapshots)
        rows = getattr(limit, "max_rows", None)
        end = Place(following) if rows is None else plan.within(begin, following, rows)
        is_news = end[:_WHERE] != begin[:_WHERE]
        return plan.placed(end).offset if is_news else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with spans.span("scan", table=self._request.location.name):
            envelope = spans.envelope()
            planned = self._planned(Place.parse(start), Place.parse(end))
        return [SplitsPartition(together, envelope) for together in planned]

    def _planned(self, begin: Place, until: Place) -> list[list[ChangeSplit]]:
        """Plan what is read from one place to another: each element by one task."""
        plan = self._open()
        splits = plan.between(begin, until)
        plan.check(begin, until.next)  # once they are planned: else a rollback between goes unseen
        plan.check(until, plan.following())
        if until.next == begin.next and (until.content is not None or not until.split):
            return [[split] for split in splits]  # they are of the content
        return _in_order(splits)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SplitsPartition)
        return spans.over("task", self._rows(partition.splits), partition.envelope)

    def _rows(self, splits: Sequence[ChangeSplit]) -> Iterator[pa.RecordBatch]:
        for split in splits:
            for batch in split.read():
                yield to_exchange(self._request.shaped(batch), self._exchange)

    def commit(self, end: dict[str, Any]) -> None:
        """Note that all before an offset was taken."""
        place = Place.parse(end)
        plan = self._open()
        if plan.progress is not None and place.content is None:
            plan.check(place, plan.following())
            plan.progress.reached(place.next)

    def stop(self) -> None:
        """Do nothing, as there is nothing to end."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plan": None}

    def _open(self) -> _Plan:
        if self._plan is None:
            self._plan = _Plan(self._request)
        return self._plan


class _Plan:
    """Plans a stream on the driver, by the table's history."""

    def __init__(self, request: StreamRequest) -> None:
        self._request = request
        self._location = request.location
        store = request.location.open()
        self._identity = TableIdentity(store, request.location.name, request.location.identity)
        self._marks = SnapshotMarks(store)
        self._history = ChangeHistory(store)
        self._checked: tuple[int, int] | None = None
        self._planner = ChangePlanner(
            store, request.changes, self._history.whole, request.normalize
        )
        self.progress: Progress | None = None
        if request.consumer_id is not None:
            of_branch = main_and_history(store)[1]
            looks_back = self._planner.looks_back
            self.progress = Progress(of_branch, request.consumer_id, looks_back=looks_back)

    def first(self) -> Place:
        """Find where the stream begins: where its consumer is, or else where it was to.

        Raises:
            SnapshotNotFoundError: there is no such snapshot.
        """
        self._identity.check_same_table()
        position = self._resumed()
        for _ in range(_TRIES):
            if position is not None:
                break
            found = self._found()
            if self.progress is None or self.progress.begin(found):
                position = found
        if position is None:
            raise SnapshotNotFoundError(
                f"snapshots of {self._location.name} expired before consumer "
                f"{self._request.consumer_id!r} could keep one: have the table keep more of them"
            )
        return Place(position.next_id, None if position.content is None else position.content.id)

    def _found(self) -> Position:
        request = self._request
        start = request.start
        if request.tag is not None:
            start = Start("from-snapshot", self._history.tagged(request.tag).id)
        found = start.find(self._history)
        if found is None:
            raise SnapshotNotFoundError(
                f"no snapshot of {self._location.name} was made by a compaction: "
                "compact the table, or begin in another mode than compacted-full"
            )
        return found

    def _resumed(self) -> Position | None:
        if self.progress is None or self._request.changes.schema.core.consumer_ignore_progress:
            return None
        consumer = self.progress.resume()
        if consumer is None or consumer.is_loading:
            return None
        return Position(consumer.next_snapshot)

    def following(self) -> int:
        """Give the id of the snapshot that is to come."""
        latest = self._history.latest()
        return latest.id + 1 if latest is not None else 1

    def placed(self, place: Place) -> Place:
        """Have a place say of which table and history it is."""
        location = self._location
        return place._replace(table=location.identity, mark=self._marks.at(place.next - 1))

    @property
    def has_turned(self) -> bool:
        """Whether the history has shown, since the last check, that it may be another one."""
        return self._turns() != self._checked

    def _turns(self) -> tuple[int, int]:
        return self._history.rollbacks, self._history.invalidations

    def check(self, place: Place, following: int) -> None:
        """Check that a place is of this table, and that what was read before it still holds.

        Args:
            following: the snapshot that is to come, or the end of what is to be read.

        Raises:
            TableReplacedError, TableNotFoundError: it is another table's.
            SnapshotNotFoundError: the table was rolled back.
        """
        turns = self._turns()
        self._identity.check_same_table()
        name, identity = self._location.name, self._location.identity
        if place.table is not None and identity is not None and place.table != identity:
            raise TableReplacedError(
                f"table {name} was dropped, and another one created in its place, since the "
                "stream's checkpoint was made: begin a new query with a new checkpoint",
                table=name,
            )
        mark = self._marks.at(place.next - 1)
        is_other = None not in (place.mark, mark) and place.mark != mark
        if following < place.next or is_other:
            to = f"to snapshot {following - 1}" if following < place.next else "and written anew"
            raise SnapshotNotFoundError(
                f"{name} was rolled back {to} after its changes up to {place.next - 1} were read: "
                "begin a new query with a new checkpoint",
                snapshot_id=place.next,
                latest=following - 1,
            )
        self._checked = turns

    def within(self, start: Place, following: int, rows: int) -> Place:
        """Find the place up to which there are so many rows, but one split at least."""
        place, left = start, rows
        while place.content is not None or place.next < following:
            splits = self._splits(place)
            for split in splits[place.split :]:
                if left < split.row_count and place != start:
                    return place
                left -= split.row_count
                place = place._replace(split=place.split + 1)
            place = Place(place.next + (place.content is None))
        return place

    def between(self, start: Place, end: Place) -> list[ChangeSplit]:
        """Plan the splits from one place to another."""
        splits: list[ChangeSplit] = []
        place = start
        while (place.next, place.content is None) < (end.next, end.content is None):
            splits += self._splits(place)[place.split :]
            place = Place(place.next + (place.content is None))
        if end.split:
            splits += self._splits(place)[place.split : end.split]
        return splits

    def _splits(self, place: Place) -> list[ChangeSplit]:
        """Plan what is read at a place, always in the same order."""
        if place.content is not None:
            found = self._planner.content(self._history.whole(place.content), self._location)
        else:
            found = self._planner.changes(self._history.find(place.next))
        return [part for split in found for part in split.by_files()]


def _in_order(splits: Sequence[ChangeSplit]) -> list[list[ChangeSplit]]:
    """Group splits that may have changes of one key together, in their order."""
    whole = {split.partition for split in splits if split.bucket is None}
    groups: dict[tuple[bytes, int | None], list[ChangeSplit]] = defaultdict(list)
    for split in splits:
        bucket = None if split.partition in whole else split.bucket
        groups[split.partition, bucket].append(split)
    return list(groups.values())
