"""Cuts a bucket into parts that can be read at once.

Source: "source.split.target-size" and "source.split.open-file-cost" in Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pkray.format.data_file import DataFileMeta
from pkray.lsm.keys.sections import sections
from pkray.lsm.levels import Levels
from pkray.schema.table_schema import TableSchema


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
