"""Which manifests a filter leaves, by what manifest lists say of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from pkray.format import binary_row
from pkray.format.manifest import ManifestFileMeta
from pkray.scan.conditions import Statistics
from pkray.scan.predicate import Predicate
from pkray.schema.table_schema import TableSchema


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


def _counts(counts: Sequence[int | None]) -> npt.NDArray[np.int64]:
    return np.array([-1 if count is None else count for count in counts], np.int64)
