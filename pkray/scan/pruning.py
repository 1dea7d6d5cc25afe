"""Leaves out the manifests and the files that a read need not open."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pkray.format import binary_row
from pkray.format.bucket import assign_buckets
from pkray.format.manifest import ManifestFileMeta
from pkray.lsm.compaction.pick import skips_level_0
from pkray.scan.conditions import Statistics
from pkray.scan.file_set import FileSet
from pkray.scan.file_statistics import FileStatistics, Schemas
from pkray.scan.predicate import Predicate
from pkray.scan.value_pruning import needed
from pkray.schema.table_schema import TableSchema

Places = npt.NDArray[np.intp]


def holding_partitions(
    manifests: Sequence[ManifestFileMeta], predicate: Predicate, schema: TableSchema
) -> list[ManifestFileMeta]:
    """Select the manifests that may have entries of a partition the filter allows for."""
    names = schema.partition_keys
    on_partition = predicate.only(names) if names else None
    if on_partition is None or not manifests:
        return list(manifests)
    types = schema.types(names)
    stats = [manifest.partition_stats for manifest in manifests]
    least = binary_row.decode([each.min_values for each in stats], types)
    greatest = binary_row.decode([each.max_values for each in stats], types)
    nulls = [
        [each.null_counts[i] if i < len(each.null_counts) else None for each in stats]
        for i in range(len(names))
    ]
    kept = on_partition.condition.may_match(
        Statistics(
            dict(zip(names, least, strict=True)),
            dict(zip(names, greatest, strict=True)),
            {name: _counts(of) for name, of in zip(names, nulls, strict=True)},
            np.array([m.num_added_files + m.num_deleted_files for m in manifests]),
        )
    )
    return [manifest for manifest, keep in zip(manifests, kept, strict=True) if keep]


def holding_buckets(
    manifests: Sequence[ManifestFileMeta], buckets: Collection[int]
) -> list[ManifestFileMeta]:
    """Select the manifests that may have entries of one of the buckets."""
    wanted = np.array(sorted(buckets))

    def holds(manifest: ManifestFileMeta) -> bool:
        low, high = manifest.min_bucket, manifest.max_bucket
        if low is None or high is None:
            return True
        first = int(np.searchsorted(wanted, low))
        return first < len(wanted) and bool(wanted[first] <= high)

    return [manifest for manifest in manifests if holds(manifest)]


@dataclass(frozen=True)
class Pruned:
    """The places of the files to read, and how many files were left out by what."""

    places: Places
    by_level: int = 0
    by_partition: int = 0
    by_bucket: int = 0
    by_key: int = 0
    by_value: int = 0


def prune(
    files: FileSet,
    predicate: Predicate | None,
    schema: TableSchema,
    schemas: Schemas,
    buckets: BucketFilter | None = None,
    *,
    from_level: int | None = None,
) -> Pruned:
    """Leave out files that no row of the result depends on.

    Partition, bucket and key decide for a file by itself, as rows of one key meet nowhere else;
    values only as `value_pruning` says.

    Args:
        schemas: older schemas by id.
        buckets: what the filter says of the bucket key.
        from_level: leave out the files of lower levels.
    """
    places = np.arange(len(files))
    min_level = int(skips_level_0(schema)) if from_level is None else from_level
    if min_level:
        places = places[files.numbers("level") >= min_level]
    by_level = len(files) - len(places)
    if predicate is None or not len(places):
        return Pruned(places, by_level)
    statistics = FileStatistics(files, schema, schemas)
    condition = predicate.condition
    counts = [len(places)]

    if schema.partition_keys:
        of_partition = condition.may_match(statistics.of_partitions())
        places = places[of_partition[files.partitions[0][places]]]
    counts.append(len(places))
    if buckets is not None:
        of_file, totals = files.numbers("bucket"), files.numbers("total_buckets")
        places = places[buckets.keeps(of_file[places], totals[places])]
    counts.append(len(places))

    columns = set(predicate.columns)
    keys = columns & {*schema.partition_keys, *schema.trimmed_primary_keys}
    if keys & set(schema.trimmed_primary_keys):
        places = places[condition.may_match(statistics.select(keys, places))]
    counts.append(len(places))
    if columns - keys and len(places):
        matches = condition.may_match(statistics.select(columns, places))
        places = places[needed(files, places, matches, schema)]
    counts.append(len(places))
    return Pruned(places, by_level, *(-np.diff(counts)).tolist())


def _counts(counts: Sequence[int | None]) -> npt.NDArray[np.int64]:
    return np.array([-1 if count is None else count for count in counts], np.int64)


MAX_KEYS = 10_000
"""Bucket keys hashed at most: more keys than a table has buckets leave none of them out."""


class BucketFilter:
    """The bucket keys one of which a matching row has.

    Args:
        keys: the bucket key's columns, a row a key.
    """

    def __init__(self, schema: TableSchema, keys: list[pa.Array]) -> None:
        self._keys = keys
        self._types = schema.types(schema.bucket_keys)
        self._function = schema.core.bucket_function_type
        self._known: dict[int, npt.NDArray[np.int32]] = {}

    @classmethod
    def from_predicate(cls, predicate: Predicate, schema: TableSchema) -> BucketFilter | None:
        """Make it from equalities and INs on the whole bucket key; None without, or of dynamic
        buckets."""
        if schema.core.bucket < 1:
            return None
        equalities = predicate.equalities()
        columns = [equalities.get(name) for name in schema.bucket_keys]
        if not columns or any(column is None for column in columns):
            return None
        found = [column for column in columns if column is not None]
        if math.prod(len(column) for column in found) > MAX_KEYS:
            return None
        places = list(itertools.product(*(range(len(column)) for column in found)))
        chosen = np.array(places, np.int64).reshape(-1, len(found))
        keys = [column.take(pa.array(chosen[:, i])) for i, column in enumerate(found)]
        return cls(schema, keys)

    def buckets(self, total: int) -> npt.NDArray[np.int32]:
        """Compute the buckets of these keys, where there are ``total``: distinct, ascending."""
        found = self._known.get(total)
        if found is None:
            if len(self._keys[0]):
                of_key = assign_buckets(self._keys, self._types, total, self._function)
                found = np.unique(of_key)
            else:
                found = np.zeros(0, np.int32)
            self._known[total] = found
        return found

    def keeps(
        self, buckets: npt.NDArray[np.int64], totals: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Tell which files may hold one of the keys, by their bucket and the number of buckets
        then: int64, one a file; returns bool."""
        kept = np.ones(len(buckets), np.bool_)
        for total in np.unique(totals).tolist():
            if total > 0:
                of_total = totals == total
                kept[of_total] = np.isin(buckets[of_total], self.buckets(total))
        return kept
