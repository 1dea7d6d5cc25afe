"""Writes sorted rows to files of one level."""

from __future__ import annotations

import pyarrow as pa

from pkray.closing import Abortable
from pkray.format.data_file import DataFileMeta
from pkray.lsm.bucket_files import BucketFiles
from pkray.lsm.open_file import OpenFile

ROWS_BETWEEN_LOOKS = 1_000
"""A file's size is not looked at more often, however small the target; as in Paimon."""


class RunWriter(Abortable):
    """Rows sorted by key, pushed batch after batch into files of one level.

    Attributes:
        files: what was written, once closed.
    """

    def __init__(self, store: BucketFiles, level: int, source: int, prefix: str) -> None:
        self.files: list[DataFileMeta] = []
        self._store = store
        self._level = level
        self._source = source
        self._prefix = prefix
        # Each file of level 0 is a run of its own: cutting one would make more to merge.
        is_run = level == 0 and prefix == "data"
        self._target_size = float("inf") if is_run else store.schema.core.target_file_size
        self._open: OpenFile | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        for start in range(0, rows.num_rows, step := self._rows_between_looks(rows)):
            self._write(rows.slice(start, step))

    def _rows_between_looks(self, rows: pa.RecordBatch) -> int:
        if rows.nbytes <= self._target_size:
            return max(1, rows.num_rows)
        return max(ROWS_BETWEEN_LOOKS, int(rows.num_rows * self._target_size / rows.nbytes))

    def _write(self, rows: pa.RecordBatch) -> None:
        if self._open is None:
            options = self._store.options_for(self._level, self._prefix)
            name = self._new_name()
            self._open = OpenFile(self._store, name, self._level, self._source, options)
        self._open.write(rows)
        if self._open.size_estimate >= self._target_size:
            self._finish_file()

    def close(self) -> list[DataFileMeta]:
        if self._open is not None:
            self._finish_file()
        return self.files

    def abort(self) -> None:
        """Give up: delete what was written."""
        if self._open is not None:
            self._open.abort()
            self._open = None
        self._store.delete(self.files)
        self.files = []

    def _finish_file(self) -> None:
        assert self._open is not None
        self.files.append(self._open.finish())
        self._open = None

    def _new_name(self) -> str:
        names = self._store.names
        return names.changelog() if self._prefix == "changelog" else names.data()
