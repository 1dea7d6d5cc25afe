"""Know the compactions that run in this process, whoever began them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pkray.clock import now_millis
from pkray.lsm.bucket_files import BucketFiles
from pkray.lsm.compaction.pick import CompactionUnit


@dataclass(frozen=True)
class UnderWay:
    """A compaction that runs.

    Args:
        table: the URL of the table's root.
        partition: as manifests hold it.
        levels: those that files are merged of, ascending.
        output_level: the level of what comes of them.
        files, bytes: of the inputs.
        since: epoch milliseconds.
    """

    table: str
    partition: bytes
    bucket: int
    levels: tuple[int, ...]
    output_level: int
    files: int
    bytes: int
    since: int


_running: dict[int, UnderWay] = {}
_numbers = itertools.count()
_lock = threading.Lock()


@contextmanager
def noted(files: BucketFiles, unit: CompactionUnit) -> Iterator[None]:
    """Note a compaction of a bucket for as long as the block takes."""
    noted = UnderWay(
        files.store.url.rstrip("/"),
        files.partition,
        files.bucket,
        tuple(sorted({run.level for run in unit.runs})),
        unit.output_level,
        sum(len(run.files) for run in unit.runs),
        sum(run.size for run in unit.runs),
        now_millis(),
    )
    with _lock:
        number = next(_numbers)
        _running[number] = noted
    try:
        yield
    finally:
        with _lock:
            del _running[number]


def under_way(table: str) -> list[UnderWay]:
    """List the compactions of a table that run in this process, the oldest first.

    Args:
        table: the URL of its root.
    """
    with _lock:
        return [each for each in _running.values() if each.table == table.rstrip("/")]
