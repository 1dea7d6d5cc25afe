"""Which files of a set a read has to open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pkray.lsm.compaction.pick import skips_level_0
from pkray.scan.bucket_filter import BucketFilter
from pkray.scan.file_set import FileSet
from pkray.scan.file_statistics import FileStatistics, Schemas
from pkray.scan.predicate import Predicate
from pkray.scan.value_pruning import needed
from pkray.schema.table_schema import TableSchema

Places = npt.NDArray[np.intp]


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
    lowest = int(skips_level_0(schema)) if from_level is None else from_level
    if lowest:
        places = places[files.numbers("level") >= lowest]
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
        places = places[condition.may_match(statistics.of(keys, places))]
    counts.append(len(places))
    if columns - keys and len(places):
        matches = condition.may_match(statistics.of(columns, places))
        places = places[needed(files, places, matches, schema)]
    counts.append(len(places))
    return Pruned(places, by_level, *(-np.diff(counts)).tolist())
