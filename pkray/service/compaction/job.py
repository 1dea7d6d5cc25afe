"""A compaction that is concurrent with writing, from its start until its outcome is committed."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pkray.format.data_file import DataFileMeta
from pkray.lsm.compaction.compactor import CompactionResult
from pkray.lsm.compaction.pick import CompactionUnit
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.levels import Levels

UNNAMED_MILLIS = 12 * 60 * 60 * 1000
"""How old a file gets that no snapshot names; cleaners of orphan files wait for a day."""


class CompactionCancelled(Exception):
    """The compaction was no longer wanted."""


class CancellationToken:
    """Asks a compaction to end; the end of the process does so too."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def ask(self) -> None:
        self._asked.set()

    def check(self) -> None:
        """Check that it is to go on."""
        if self._asked.is_set() or not threading.main_thread().is_alive():
            raise CompactionCancelled


class StoppableFiles(DataFileStore):
    """A bucket's files, until the reader is to stop."""

    stop: CancellationToken

    def read(self, file: DataFileMeta, *args: Any, **kwargs: Any) -> Iterator[pa.RecordBatch]:
        for rows in super().read(file, *args, **kwargs):
            self.stop.check()
            yield rows


@dataclass
class CompactionJob:
    """A compaction of some runs, and what is known of its outcome.

    Args:
        levels: the bucket's committed files when it began.
        future: its outcome.
        prepared: names of its files that were handed over in a commit message.
    """

    unit: CompactionUnit
    levels: Levels
    files: DataFileStore
    stop: CancellationToken
    future: Future[CompactionResult] | None = None
    prepared: set[str] = field(default_factory=set)

    @property
    def inputs(self) -> set[str]:
        return {file.file_name for run in self.unit.runs for file in run.files}

    @property
    def is_running(self) -> bool:
        return self.future is None or not self.future.done()

    @property
    def result(self) -> CompactionResult | None:
        if self.is_running:
            return None
        assert self.future is not None
        if self.future.cancelled() or self.future.exception() is not None:
            return None
        return self.future.result()

    @property
    def made(self) -> set[str]:
        """Names of the files of its outcome; none yet while it runs."""
        result = self.result
        if result is None:
            return set()
        return {file.file_name for file in (*result.after, *result.changelog)}

    def end(self) -> None:
        """Ask it to end, if it has begun at all."""
        self.stop.ask()
        if self.future is not None:
            self.future.cancel()

    def fits(self, levels: Levels) -> bool:
        """Whether its outcome can still take its inputs' place."""
        live = {(file.file_name, file.level) for file in levels.files}
        inputs = {(f.file_name, f.level) for run in self.unit.runs for f in run.files}
        output, least = self.unit.output_level, self.unit.runs[0].level
        if not inputs <= live or levels.above(output) != self.levels.above(output):
            return False
        others = [f for f in levels.files if (f.file_name, f.level) not in inputs]
        return all(f.level == 0 or f.level < least or f.level > output for f in others)

    def is_old(self, age_millis: int) -> bool:
        """Whether files of its outcome are so old that cleaners may take them for orphans."""
        result, before = self.result, self.files.clock() - age_millis
        return result is not None and any(
            file.creation_time is not None and file.creation_time <= before
            for file in (*result.after, *result.changelog)
        )

    def is_in(self, levels: Levels) -> bool:
        """Whether its outcome is committed."""
        live = {(file.file_name, file.level) for file in levels.files}
        result = self.result
        return result is not None and live.issuperset((f.file_name, f.level) for f in result.after)
