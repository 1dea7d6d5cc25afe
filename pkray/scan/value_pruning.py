"""Leaves out files that no row of the result comes from, by what their values match.

A file whose rows match no filter may still decide what a row of the result is: as the newest row
of a key it hides an older one that matches, or it is merged with it. So it may be left out only
where that cannot be:

- No other file has keys in its range: its rows are in the result as they are.
- Deletion vectors name the rows that are hidden: each file is read by itself.
- Rows are taken whole (deduplicate, first-row), and none of the files that overlap with it, nor
  with these, matches: the row that wins is in one of them.
- The newest row wins by arrival, and no older file that overlaps with it, nor with these, matches:
  leaving it out uncovers nothing.
"""

import numpy as np
import numpy.typing as npt

from pkray.format.key_range import rank_ranges
from pkray.scan.file_set import FileSet
from pkray.schema.table_schema import TableSchema

Bools = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]


def needed(files: FileSet, places: Places, matches: Bools, schema: TableSchema) -> Bools:
    """Tell which of the files at these places have to be read.

    Args:
        places: of all files that may hold a key the filter allows for.
        matches: whether each may hold a row that matches.
    """
    if matches.all() or schema.core.deletion_vectors_enabled:
        return matches
    sections = _sections(files, places, schema)
    count = int(sections.max()) + 1
    engine = schema.core.merge_engine
    kept = np.ones(len(places), np.bool_)
    alone = np.bincount(sections, minlength=count)[sections] == 1
    kept[alone] = matches[alone]
    if engine in ("deduplicate", "first-row"):
        any_match = np.bincount(sections, matches, count) > 0
        kept &= any_match[sections]
    if engine == "deduplicate" and not schema.core.sequence_field:
        kept &= _newest_wins(files, places, matches, sections)
    return kept


def _sections(files: FileSet, places: Places, schema: TableSchema) -> npt.NDArray[np.int64]:
    """Number for each file its section: files of a bucket that overlap, one by one."""
    types = schema.types(schema.trimmed_primary_keys)
    rows = [files.column(name).take(places).to_pylist() for name in ("min_key", "max_key")]
    low, high = rank_ranges(rows[0], rows[1], types)
    bucket = _buckets(files, places)
    order = np.lexsort((high, low, bucket))
    # Ranks made to grow from bucket to bucket, so that one running maximum serves all.
    step = 2 * len(places)
    reach = np.maximum.accumulate((bucket * step + high)[order])
    begins = np.ones(len(places), np.bool_)
    begins[1:] = (bucket * step + low)[order][1:] > reach[:-1]
    sections = np.empty(len(places), np.int64)
    sections[order] = np.cumsum(begins) - 1
    return sections


def _buckets(files: FileSet, places: Places) -> npt.NDArray[np.int64]:
    """Number the files' buckets densely."""
    partitions = files.partitions[0][places].astype(np.int64)
    buckets = files.numbers("bucket")[places].astype(np.int64)
    combined = (partitions << 32) + buckets
    return np.unique(combined, return_inverse=True)[1].reshape(-1)


def _newest_wins(
    files: FileSet, places: Places, matches: Bools, sections: npt.NDArray[np.int64]
) -> Bools:
    """Tell which files match, or are newer than one of their section that does."""
    level = files.numbers("level")[places]
    low, high = (files.numbers(name)[places] for name in ("min_sequence", "max_sequence"))
    # Oldest first in each section: the highest level, then level 0 by sequence number.
    order = np.lexsort((low, np.where(level == 0, high, 0), -level, sections))
    section, level, low, high = sections[order], level[order], low[order], high[order]
    new_run = np.ones(len(order), np.bool_)
    new_run[1:] = (section[1:] != section[:-1]) | (level[1:] != level[:-1]) | (level[1:] == 0)
    starts = np.flatnonzero(new_run)
    run = np.cumsum(new_run) - 1
    of_run = section[starts]

    # Runs must follow one another in sequence numbers: else these decide which row is newest.
    ranks = np.unique(np.concatenate([low, high]), return_inverse=True)[1].reshape(2, -1)
    least = np.minimum.reduceat(ranks[0], starts)
    most = np.maximum.reduceat(ranks[1], starts)
    step = ranks.max() + 1
    before = np.maximum.accumulate(of_run * step + most)
    mixed = np.zeros(len(starts), np.bool_)
    mixed[1:] = (of_run[1:] * step + least[1:] <= before[:-1]) & (of_run[1:] == of_run[:-1])
    count = int(section[-1]) + 1
    in_order = np.bincount(of_run, mixed, count) == 0

    matching = matches[order]
    first = np.full(count, len(starts), np.int64)
    np.minimum.at(first, section[matching], run[matching])
    kept = matching | (run > first[section]) | ~in_order[section]
    result = np.empty(len(order), np.bool_)
    result[order] = kept
    return result
