"""Plans a read: from a snapshot and a filter to the splits that have to be read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from pkray import spans
from pkray.commit.index_files import index_files
from pkray.errors import InputError, StorageError
from pkray.format.data_file import DataFileMeta
from pkray.format.index_file import DELETION_VECTORS, IndexFileMeta
from pkray.format.manifest import ManifestFileMeta
from pkray.format.snapshot import Snapshot
from pkray.lsm.keys.sections import sections
from pkray.lsm.levels import Levels
from pkray.metadata.live import data_manifests
from pkray.metadata.schemas import SchemaStore, unless_dropped
from pkray.scan.conditions import Statistics
from pkray.scan.file_set import FileSet
from pkray.scan.file_set_cache import file_sets
from pkray.scan.file_statistics import FileStatistics
from pkray.scan.predicate import Predicate
from pkray.scan.pruning import BucketFilter, Pruned, holding_buckets, holding_partitions, prune
from pkray.scan.report import ScanReport, counted
from pkray.scan.split import Split
from pkray.schema.columns import check_name_list
from pkray.schema.table_schema import TableSchema
from pkray.storage.location import TableLocation
from pkray.storage.object_store import ObjectStore


class ScanPlanner:
    """Plans reads of one table.

    Args:
        schema: the schema that rows are read under.
    """

    def __init__(self, location: TableLocation, store: ObjectStore, schema: TableSchema) -> None:
        self._location = location
        self._store = store
        self._schema = schema
        self._schemas = SchemaStore(store, location.name)

    @property
    def table(self) -> str:
        """Name the table."""
        return self._location.name

    def under(self, schema: TableSchema) -> ScanPlanner:
        """Plan reads of the same table under another of its schemas."""
        return ScanPlanner(self._location, self._store, schema)

    def scan(
        self,
        snapshot: Snapshot | None,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        *,
        from_level: int | None = None,
    ) -> list[Split]:
        """Plan one split a bucket, or several where it is large; files that cannot matter are left
        out.

        Args:
            from_level: read what compactions brought to this level or above. Default all that
                readers of the table see.

        Raises:
            InputError: a column the table does not have.
            TableReplacedError, TableNotFoundError: the table was dropped.
            MissingFileError: the snapshot has expired.
            CorruptFileError: a manifest is damaged.
        """
        wanted = self._known(columns)
        if snapshot is None:
            return []
        with spans.span("plan", table=self._location.name), unless_dropped(self._location):
            return self._planned(snapshot, wanted, predicate, from_level)

    def _planned(
        self,
        snapshot: Snapshot,
        wanted: tuple[str, ...],
        predicate: Predicate | None,
        from_level: int | None,
    ) -> list[Split]:
        of_files = predicate and predicate.of_stored(self._schema)
        buckets = BucketFilter.from_predicate(of_files, self._schema) if of_files else None
        manifests = data_manifests(self._store, snapshot)
        kept = self._matching(manifests, of_files, buckets)
        if 2 * _entries(kept) > _entries(manifests) or file_sets.knows(self._store, manifests):
            files = file_sets.read(self._store, manifests)
        else:
            files = file_sets.read(self._store, kept, whole=False)
        pruned = prune(
            files, of_files, self._schema, self._schemas.read, buckets, from_level=from_level
        )
        return self._splits(snapshot, files, pruned, wanted, predicate)

    def explain(
        self,
        snapshot: Snapshot | None,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
    ) -> ScanReport:
        """Report what `scan` would have to read. Raises as it."""
        wanted = self._known(columns)
        written = str(predicate.to_expression()) if predicate else None
        if snapshot is None:
            return ScanReport(self._location.name, None, wanted, written)
        of_files = predicate and predicate.of_stored(self._schema)
        buckets = BucketFilter.from_predicate(of_files, self._schema) if of_files else None
        manifests = data_manifests(self._store, snapshot)
        kept = self._matching(manifests, of_files, buckets)
        files = file_sets.read(self._store, manifests)
        pruned = prune(files, of_files, self._schema, self._schemas.read, buckets)
        return replace(
            counted(files, pruned),
            table=self._location.name,
            snapshot_id=snapshot.id,
            columns=wanted,
            filter=written,
            manifests_total=len(manifests),
            manifests_read=len(kept),
            splits=len(self._splits(snapshot, files, pruned, wanted, predicate)),
        )

    def statistics(self, snapshot: Snapshot | None, columns: Sequence[str]) -> Statistics:
        """Say what the statistics of a snapshot's files say of columns. Raises as `scan`."""
        wanted = self._known(columns)
        manifests = data_manifests(self._store, snapshot) if snapshot else []
        files = file_sets.read(self._store, manifests)
        every = np.arange(len(files))
        return FileStatistics(files, self._schema, self._schemas.read).select(wanted, every)

    def _known(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        names = self._schema.names
        check_name_list("columns", columns)
        for column in columns or ():
            if column not in names:
                raise InputError(
                    f"column {column!r} is not in table {self._location.name}, which has "
                    f"{', '.join(names)}",
                    column=column,
                )
        return names if columns is None else tuple(columns)

    def _matching(
        self,
        manifests: list[ManifestFileMeta],
        predicate: Predicate | None,
        buckets: BucketFilter | None,
    ) -> list[ManifestFileMeta]:
        if predicate is None:
            return manifests
        kept = holding_partitions(manifests, predicate, self._schema)
        if buckets is not None and len(kept) > 1:
            totals = self._bucket_counts(max(manifest.schema_id for manifest in kept))
            if totals:
                found = [buckets.buckets(total) for total in totals]
                kept = holding_buckets(kept, set(np.concatenate(found).tolist()))
        return kept

    def _bucket_counts(self, newest_schema: int) -> set[int]:
        """Return all numbers of buckets that a partition may have; none where they are not
        known."""
        counts = {self._schema.core.bucket}
        try:
            others = set(range(newest_schema + 1)) | set(range(self._schema.id))
            for schema_id in others - {self._schema.id}:
                counts.add(self._schemas.read(schema_id).core.bucket)
        except StorageError:
            return set()
        return counts if min(counts) > 0 else set()

    def _splits(
        self,
        snapshot: Snapshot,
        files: FileSet,
        pruned: Pruned,
        columns: tuple[str, ...],
        predicate: Predicate | None,
    ) -> list[Split]:
        indices, partitions = files.partitions
        buckets = files.numbers("bucket")
        found: dict[tuple[bytes, int], list[DataFileMeta]] = defaultdict(list)
        for place, file in zip(pruned.places.tolist(), files.files(pruned.places), strict=True):
            found[partitions[indices[place]], int(buckets[place])].append(file)
        vectors: dict[tuple[bytes, int], list[IndexFileMeta]] = {}
        if self._schema.core.deletion_vectors_enabled:
            vectors = index_files(self._store, snapshot, DELETION_VECTORS)
        return [
            Split(
                self._location,
                self._schema,
                *bucket,
                group,
                columns,
                predicate,
                tuple(vectors.get(bucket, ())),
            )
            for bucket, of_bucket in sorted(found.items())
            for group in pack(of_bucket, self._schema)
        ]


def _entries(manifests: Sequence[ManifestFileMeta]) -> int:
    return sum(manifest.num_added_files + manifest.num_deleted_files for manifest in manifests)


def pack(files: Sequence[DataFileMeta], schema: TableSchema) -> list[tuple[DataFileMeta, ...]]:
    """Group a bucket's files, in key order; files that overlap are in one group.

    A group ends before it would outgrow the target size; a section of files that overlap counts
    its size, but at least the cost of opening a file.
    """
    target, least = schema.core.split_target_size, schema.core.split_open_file_cost
    if len(files) < 2 or (_weight(files, least) <= target and least * len(files) <= target):
        return [tuple(files)]
    groups: list[tuple[DataFileMeta, ...]] = []
    group: list[DataFileMeta] = []
    filled = 0
    for together in _sections(files, schema):
        weight = _weight(together, least)
        if group and filled + weight > target:
            groups.append(tuple(group))
            group, filled = [], 0
        group += together
        filled += weight
    groups.append(tuple(group))
    return groups


def _sections(files: Sequence[DataFileMeta], schema: TableSchema) -> list[tuple[DataFileMeta, ...]]:
    """Group the files that have to be read together."""
    if schema.core.deletion_vectors_enabled:  # nothing is merged
        return [(file,) for file in files]
    return [section.files for section in sections(Levels(files).runs(), schema)]


def _weight(files: Iterable[DataFileMeta], least: int) -> int:
    return max(least, sum(file.file_size for file in files))
