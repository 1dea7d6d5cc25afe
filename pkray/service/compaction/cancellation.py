"""Asks a compaction that is running to end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pkray.format.data_file import DataFileMeta
from pkray.lsm.data_files import DataFileStore


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
