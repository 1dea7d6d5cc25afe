"""Read what changed between two snapshots, one row a key.

Source: ``incremental-between``, ``incremental-between-timestamp`` and
    ``incremental-between-scan-mode`` in Apache Paimon.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from pkray.changelog.change_history import ChangeHistory
from pkray.changelog.request import ROW_KIND, SNAPSHOT_ID, ChangeRequest
from pkray.changelog.splits import BucketState, DifferenceSplit
from pkray.commit.index_files import index_files
from pkray.errors import OptionError
from pkray.format.data_file import ADD, DataFileMeta, ManifestEntry
from pkray.format.index_file import DELETION_VECTORS
from pkray.format.snapshot import APPEND, OVERWRITE, Snapshot
from pkray.lsm.compaction.pick import skips_level_0
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.engines import merge_engine
from pkray.lsm.keys.key_groups import RowOrder, concat, take
from pkray.lsm.levels import Levels
from pkray.lsm.merge.merge_read import merge_read
from pkray.lsm.merge.sorted_streams import MergeLimits, group_sorted
from pkray.metadata import live
from pkray.options import TableOptions
from pkray.scan.moment import Timestamp, epoch_millis
from pkray.schema import row_kind
from pkray.schema.table_schema import KIND, TableSchema
from pkray.storage.object_store import ObjectStore

BetweenMode = Literal["auto", "delta", "changelog", "diff"]


@dataclass(frozen=True)
class Range:
    """Two snapshots: what changed after the first, up to the second.

    Args:
        start: 0 is before the first snapshot.
        of_tags: whether both were named by tags, which is read as a difference.
    """

    start: int | Snapshot
    end: int | Snapshot
    of_tags: bool = False

    @property
    def ids(self) -> tuple[int, int]:
        return _id(self.start), _id(self.end)


class ChangesBetween:
    """Reads what changed between two snapshots.

    ``delta`` is what writers added, ``changelog`` what changelog files say, each the last change
    of a key; ``diff`` compares the table at both. ``auto`` is ``diff`` between two tags, else
    ``changelog`` where the table has a changelog producer and ``delta`` where not. The first two
    leave OVERWRITE snapshots out.

    Args:
        store: the table's root, or a branch.
    """

    def __init__(self, store: ObjectStore, request: ChangeRequest) -> None:
        self._store = store
        self._request = request
        self._options = request.schema.core
        self._history = ChangeHistory(store)
        fields = [field for field in request.arrow_schema if field.name != SNAPSHOT_ID]
        self.schema = pa.schema(fields)

    def read(self, between: Range, mode: BetweenMode | None = None) -> Iterator[pa.RecordBatch]:
        """Read the changes: batches of ``_row_kind`` and the columns, a row a key.

        Args:
            mode: default the table's ``incremental-between-scan-mode``.

        Raises:
            OptionError: an unknown mode, or the second snapshot is older than the first.
            SnapshotNotFoundError: one that is needed has expired.
        """
        chosen = self._options.incremental_between_scan_mode if mode is None else mode
        if chosen not in get_args(BetweenMode):
            raise OptionError(
                f"mode {chosen!r} is unknown: use one of {', '.join(get_args(BetweenMode))}",
                value=chosen,
            )
        start, end = between.ids
        if start > end:
            raise OptionError(
                f"changes go from an older snapshot to a newer one, and {end} is older than "
                f"{start}: swap them",
                start=start,
                end=end,
            )
        if chosen == "auto":
            has_changelog = self._options.changelog_producer != "none"
            chosen = "diff" if between.of_tags else "changelog" if has_changelog else "delta"
        return self._batches(between, chosen) if start < end else iter(())

    def _batches(self, between: Range, mode: str) -> Iterator[pa.RecordBatch]:
        read = {"diff": self._diff, "delta": self._delta, "changelog": self._changelog}[mode]
        for rows in read(between):
            if rows.num_rows:
                yield rows.select(self.schema.names)

    def _delta(self, between: Range) -> Iterator[pa.RecordBatch]:
        def added(snapshot: Snapshot) -> Iterable[ManifestEntry]:
            if snapshot.commit_kind != APPEND:
                return []
            return [e for e in live.delta_entries(self._store, snapshot) if e.kind == ADD]

        return self._summed(between, added, merged_deltas)

    def _changelog(self, between: Range) -> Iterator[pa.RecordBatch]:
        def saved(snapshot: Snapshot) -> Iterable[ManifestEntry]:
            is_overwrite = snapshot.commit_kind == OVERWRITE
            return [] if is_overwrite else live.changelog_entries(self._store, snapshot)

        return self._summed(between, saved, last_changes)

    def _summed(
        self,
        between: Range,
        files_of: Callable[[Snapshot], Iterable[ManifestEntry]],
        summed: Callable[..., Iterator[pa.RecordBatch]],
    ) -> Iterator[pa.RecordBatch]:
        files: dict[live.BucketId, list[tuple[DataFileMeta, ...]]] = defaultdict(list)
        start, end = between.ids
        for number in range(start + 1, end + 1):
            entries = files_of(self._history.find(number))
            for bucket, of_bucket in live.by_bucket(entries).items():
                files[bucket].append(of_bucket)
        columns = [KIND, *self._request.needed]
        for bucket, of_snapshots in sorted(files.items()):
            with live.unless_expired(self._store, end):
                for rows in summed(
                    self._store, self._request.schema, bucket, of_snapshots, columns
                ):
                    yield self._request.labelled(rows, end)

    def _diff(self, between: Range) -> Iterator[pa.RecordBatch]:
        before, after = self._bucket_states(between.start), self._bucket_states(between.end)
        changed = {
            bucket
            for bucket in before.keys() | after.keys()
            if before.get(bucket) != after.get(bucket)
        }
        for partition in sorted({partition for partition, _ in changed}):
            buckets = sorted(bucket for bucket in changed if bucket[0] == partition)
            yield from DifferenceSplit(
                self._request,
                between.ids[1],
                partition,
                None,
                tuple(before[bucket] for bucket in buckets if bucket in before),
                tuple(after[bucket] for bucket in buckets if bucket in after),
                show_old=False,
            ).read(self._store)

    def _bucket_states(self, at: int | Snapshot) -> dict[live.BucketId, BucketState]:
        if at == 0:
            return {}
        snapshot = self._history.whole(at) if isinstance(at, int) else at
        min_level = int(skips_level_0(self._request.schema))
        entries = live.live_files(self._store, snapshot)
        vectors = {}
        if self._options.deletion_vectors_enabled:
            vectors = index_files(self._store, snapshot, DELETION_VECTORS)
        files = live.by_bucket(entry for entry in entries if entry.file.level >= min_level)
        return {
            bucket: BucketState(*bucket, of_bucket, tuple(vectors.get(bucket, ())))
            for bucket, of_bucket in files.items()
        }


def named_range(history: ChangeHistory, start: int | str, end: int | str) -> Range:
    """Find the snapshots that ids or tags name.

    Raises:
        OptionError: neither.
        TagNotFoundError: there is no such tag.
    """
    both = [each if isinstance(each, int) else _tag_or_id(history, each) for each in (start, end)]
    return Range(both[0], both[1], all(isinstance(each, Snapshot) for each in both))


def timed_range(history: ChangeHistory, start: Timestamp, end: Timestamp) -> Range:
    """Find the range of what was committed after a time, up to another."""
    first, last = epoch_millis(_number(start)), epoch_millis(_number(end))
    if first > last:
        raise OptionError(
            f"changes go from an earlier time to a later one, and {end!r} is before {start!r}: "
            "swap them",
            start=start,
            end=end,
        )
    earliest = history.earliest_id()
    if earliest is None:
        return Range(0, 0)
    oldest = max(history.last_until(first), earliest - 1)
    return Range(oldest, max(history.last_until(last), oldest))


def range_of_options(history: ChangeHistory, options: TableOptions) -> Range:
    """Find the range that ``incremental-between`` or ``incremental-between-timestamp`` names.

    Raises:
        OptionError: neither is set, or not as two ends with a comma between.
    """
    if options.incremental_between is not None:
        return named_range(history, *_two("incremental-between", options.incremental_between))
    text = options.incremental_between_timestamp
    if text is not None:
        return timed_range(history, *_two("incremental-between-timestamp", text))
    raise OptionError(
        "changes are between two snapshots: give start and end, or set incremental-between",
        key="incremental-between",
    )


def inserts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Leave out the rows that are gone after the changes, and drop the column of kinds."""
    gone = pa.array([row_kind.SHORT[row_kind.DELETE], row_kind.SHORT[row_kind.UPDATE_BEFORE]])
    for batch in batches:
        kept = batch.filter(pc.invert(pc.is_in(batch.column(ROW_KIND), gone)))
        if kept.num_rows:
            yield kept.drop_columns([ROW_KIND])


def _two(key: str, text: str) -> tuple[str, str]:
    first, comma, second = text.partition(",")
    if not comma or not first.strip() or not second.strip() or "," in second:
        raise OptionError(
            f"option {key!r} is {text!r}: write two ends with a comma between, such as '5,12'",
            key=key,
            value=text,
        )
    return first.strip(), second.strip()


def _tag_or_id(history: ChangeHistory, name: str) -> int | Snapshot:
    found = history.find_tag(name)
    if found is None and name.isdecimal():
        return int(name)
    return history.tagged(name) if found is None else found


def _number(time: Timestamp) -> Timestamp:
    return int(time) if isinstance(time, str) and time.strip().isdecimal() else time


def _id(of: int | Snapshot) -> int:
    return of if isinstance(of, int) else of.id


def last_changes(
    store: ObjectStore,
    schema: TableSchema,
    bucket: live.BucketId,
    files: Sequence[tuple[DataFileMeta, ...]],
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Read the last change of each key from changelog files, in key order, in bounded memory.

    Args:
        files: changelog files of a bucket, of one snapshot after the other; each is sorted by key
            and has the changes of a key one after the other.
        columns: of the rows yielded.
    """
    source = DataFileStore(store, schema, *bucket)
    # The last change counts, whatever sequence fields say: it was merged by them.
    order = RowOrder(schema, by_user_sequence=False)
    wanted = list(dict.fromkeys([*columns, *order.key_columns]))
    streams = [_last_of_key(source.read(file, wanted), order) for group in files for file in group]
    for groups, _ in group_sorted(streams, order, MergeLimits.from_options(schema.core)):
        yield groups.take(groups.newest()).select(list(columns))


def merged_deltas(
    store: ObjectStore,
    schema: TableSchema,
    bucket: live.BucketId,
    files: Sequence[tuple[DataFileMeta, ...]],
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Merge what writers added, a row a key with deletes, by the table's engine: in key order, in
    bounded memory.

    Args:
        files: data files that writers added to a bucket, of one snapshot after the other. Their
            order counts: sequence numbers may begin anew when all rows of a bucket are gone.
        columns: of the rows yielded.
    """
    source = DataFileStore(store, schema, *bucket)
    engine = merge_engine(schema)
    every = schema.row_schema.names
    streams = [
        merge_read(Levels(group).runs(), source, engine, schema, every, drop_deletes=False)
        for group in files
    ]
    for groups, _ in group_sorted(streams, RowOrder(schema), MergeLimits.from_options(schema.core)):
        yield engine.merge(groups).select(list(columns))


def _last_of_key(batches: Iterable[pa.RecordBatch], order: RowOrder) -> Iterator[pa.RecordBatch]:
    """Yield rows sorted by key, without those that another of their key follows."""
    held: pa.RecordBatch | None = None  # the key may go on in the next batch
    for batch in batches:
        if not batch.num_rows:
            continue
        rows = batch if held is None else concat([held, batch])
        ends = order.keys(rows).group_starts()[1:] - 1
        if len(ends):
            yield take(rows, ends)
        held = rows.slice(rows.num_rows - 1)
    if held is not None:
        yield held
