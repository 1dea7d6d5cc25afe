"""Cut runs into sections: sets of files whose key ranges overlap, to be merged together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pkray.format import binary_row
from pkray.format.data_file import DataFileMeta
from pkray.format.key_range import rank_ranges
from pkray.lsm.keys.keys import KeyBound, NormalizedKeys
from pkray.lsm.levels import SortedRun
from pkray.schema.table_schema import TableSchema


@dataclass(frozen=True)
class Section:
    """Files whose keys overlap with no other section's.

    ``runs`` are the runs with files here, oldest first, each run's files in key order.
    """

    runs: tuple[SortedRun, ...]

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        return tuple(file for run in self.runs for file in run.files)


def sections(runs: Sequence[SortedRun], schema: TableSchema) -> list[Section]:
    """Cut runs (newest first) into sections in key order."""
    placed = [
        (run_number, file) for run_number, run in enumerate(reversed(runs)) for file in run.files
    ]
    if len(placed) < 2:
        return [Section((SortedRun(runs[0].level, (placed[0][1],)),))] if placed else []
    types = schema.types(schema.trimmed_primary_keys)
    min_keys, max_keys = zip(*((file.min_key, file.max_key) for _, file in placed), strict=True)
    low, high = rank_ranges(min_keys, max_keys, types)
    levels = [run.level for run in reversed(runs)]
    by_key = np.lexsort((high, low))
    return [
        _section([placed[index] for index in chosen], levels)
        for chosen in _overlapping(by_key, low, high)
    ]


def in_key_order(run: SortedRun, schema: TableSchema, first: KeyBound) -> Iterator[DataFileMeta]:
    """Yield the files of a run that may have keys from ``first`` on."""
    types = schema.types(schema.trimmed_primary_keys)
    last_keys = NormalizedKeys(binary_row.decode([file.max_key for file in run.files], types))
    for number in last_keys.argsort().tolist():
        if last_keys.bound(number) >= first:
            yield run.files[number]


def _overlapping(by_key: np.ndarray, low: np.ndarray, high: np.ndarray) -> Iterator[list[int]]:
    chosen: list[int] = []
    reach = -1
    for index in by_key.tolist():
        if chosen and low[index] > reach:
            yield chosen
            chosen = []
        chosen.append(index)
        reach = max(reach, high[index])
    yield chosen


def _section(placed: Iterable[tuple[int, DataFileMeta]], levels: Sequence[int]) -> Section:
    by_run: dict[int, list[DataFileMeta]] = {}
    for run_number, file in placed:
        by_run.setdefault(run_number, []).append(file)
    return Section(
        tuple(SortedRun(levels[number], tuple(by_run[number])) for number in sorted(by_run))
    )
