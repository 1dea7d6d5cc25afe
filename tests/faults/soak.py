"""Runs one query for many epochs, with commits to another table beside it, and says what it takes.

    python tests/faults/soak.py [EPOCHS] [EVERY] [FOLDER]

All is in this process, and snapshots expire. Each line is what there is after so many epochs, and
the milliseconds of an epoch since the line before: of the processors, and as time passed.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import pkray
from pkray.api.relation import Relation
from pkray.metadata.metadata_cache import metadata
from pkray.relational.continuous.queries.workers import worker
from pkray.scan.file_set_cache import file_sets

EPOCHS, EVERY = 20_000, 500
KEYS, ROWS = 500, 20
"""Of each table, and of each commit."""
OPTIONS = {"bucket": "1", "snapshot.num-retained.min": "3", "snapshot.num-retained.max": "5"}
TOTALS = "SELECT v % 7 AS side, COUNT(*) AS n, SUM(v) AS total FROM source GROUP BY v % 7"
POLL_SECONDS = 0.001
"""Between two looks for something new: shorter than usual, for epochs are to follow each other."""


@dataclass(frozen=True)
class Taken:
    """What the process and its warehouse take.

    Attributes:
        resident, allocated: megabytes of the process, and of these Arrow's.
        cached: decoded snapshots and manifests, and sets of files.
        of_query, of_tables: files.
    """

    resident: float
    allocated: float
    objects: int
    cached: int
    threads: int
    descriptors: int
    of_query: int
    of_tables: int

    def __str__(self) -> str:
        return (
            f"{self.resident:6.1f} MB, Arrow {self.allocated:.2f} MB, {self.objects} objects, "
            f"{self.cached} cached, {self.threads} threads, {self.descriptors} descriptors, "
            f"files: query {self.of_query}, tables {self.of_tables}"
        )


class Soak:
    """A query over a source, and a table beside it.

    Args:
        settings: of the query, as SET takes them.
    """

    def __init__(self, folder: str, settings: Mapping[str, str] = {}) -> None:
        self._folder = Path(folder)
        with ExitStack() as undo:
            self._catalog = undo.enter_context(pkray.connect(folder))
            self._writers = [
                undo.enter_context(
                    self._catalog.create_table(
                        f"default.{name}", [("k", "INT"), ("v", "BIGINT")], ["k"], options=OPTIONS
                    ).open_writer()
                )
                for name in ("source", "beside")
            ]
            for name, value in settings.items():
                self._catalog.sql(f"SET '{name}' = '{value}'")
            totals = self._catalog.sql(TOTALS)
            assert isinstance(totals, Relation)
            self.query = totals.materialize("default.result", options=OPTIONS)
            self._undo = undo.pop_all()
        self._number = 0

    def epoch(self) -> None:
        """Change the source, every second time the table beside it, and wait for the result."""
        self._number += 1
        start = self._number * ROWS
        rows = pa.table(
            {
                "k": pa.array([each % KEYS for each in range(start, start + ROWS)], pa.int32()),
                "v": pa.array(range(start, start + ROWS), pa.int64()),
            }
        )
        for writer in self._writers[: 1 + self._number % 2]:
            writer.upsert(rows)
            made = writer.commit()
            if writer is self._writers[0]:
                assert made is not None
                self.query.wait({"default.source": made.id})

    def taken(self) -> Taken:
        """Say what all takes now."""
        gc.collect()
        return Taken(
            resident=int(Path("/proc/self/statm").read_text().split()[1])
            * os.sysconf("SC_PAGE_SIZE")
            / 1e6,
            allocated=pa.total_allocated_bytes() / 1e6,
            objects=len(gc.get_objects()),
            cached=len(metadata) + len(file_sets),
            threads=threading.active_count(),
            descriptors=len(list(Path("/proc/self/fd").iterdir())),
            of_query=self._files(".queries"),
            of_tables=self._files("default.db"),
        )

    def _files(self, folder: str) -> int:
        return sum(each.is_file() for each in (self._folder / folder).rglob("*"))

    def cached_in_vain(self) -> list[str]:
        """List the files that are held in memory, and are there no more."""
        folder = f"{self._folder}/"
        held = (f"{url}/{path}" for url, path in list(metadata._held))
        return [each for each in held if each.startswith(folder) and not Path(each).exists()]

    def is_right(self) -> bool:
        """Whether the result is what its sources say."""
        return self.query.verify().equal

    def close(self) -> None:
        """Stop the query and close all."""
        self.query.stop()
        self._undo.close()

    def __enter__(self) -> Soak:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def series(soak: Soak, epochs: int, every: int) -> Iterator[tuple[int, Taken, float, float]]:
    """Run epochs; yield how many, what all takes, and the milliseconds of an epoch."""
    for number in range(every, epochs + 1, every):
        cpu, wall = time.process_time(), time.monotonic()
        for _ in range(every):
            soak.epoch()
        cpu, wall = time.process_time() - cpu, time.monotonic() - wall
        yield number, soak.taken(), cpu * 1000 / every, wall * 1000 / every


@dataclass(frozen=True)
class Course:
    """What a run took as it went on, and whether its end is right.

    Attributes:
        cached_in_vain: files that are held in memory at the end, and are there no more.
    """

    series: list[tuple[int, Taken, float, float]]
    cached_in_vain: list[str]
    is_right: bool


def course(folder: str, settings: Mapping[str, str], epochs: int, every: int) -> Course:
    """Run a soak in this process, which is to have run nothing before."""
    worker.POLL_SECONDS = POLL_SECONDS
    with Soak(folder, settings) as soak:
        return Course(list(series(soak, epochs, every)), soak.cached_in_vain(), soak.is_right())


def main(epochs: int = EPOCHS, every: int = EVERY, folder: str | None = None) -> None:
    worker.POLL_SECONDS = POLL_SECONDS
    with tempfile.TemporaryDirectory(dir=folder) as warehouse, Soak(warehouse) as soak:
        for number, taken, cpu, wall in series(soak, epochs, every):
            print(f"{number:6}: {taken}; {cpu:.1f} ms CPU, {wall:.1f} ms an epoch", flush=True)
        print(f"the result is {'right' if soak.is_right() else 'WRONG'}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:4])
