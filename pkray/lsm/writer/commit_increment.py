"""Collect what a bucket writer has done and not handed over."""

from collections.abc import Callable, Iterable
from typing import Literal

import pyarrow as pa

from pkray.format.commit_message import CommitMessage
from pkray.format.data_file import APPEND_SOURCE, DataFileMeta
from pkray.lsm.compaction.compactor import CompactionResult
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.keys.key_groups import shifted
from pkray.lsm.levels import Vectors, united
from pkray.lsm.writer.prepared_messages import PreparedMessages
from pkray.schema.table_schema import TableSchema

Kind = Literal["data", "changelog"]


class CommitIncrement:
    """Collects the files made since the last message.

    Attributes:
        created: by this writer, whether a message names them or not.
        marked: rows of older files that compactions replaced.
    """

    def __init__(self) -> None:
        self.new_files: list[DataFileMeta] = []
        self.changelog_files: list[DataFileMeta] = []
        self.compact_before: dict[str, DataFileMeta] = {}
        self.compact_after: dict[str, DataFileMeta] = {}
        self.compact_changelog: list[DataFileMeta] = []
        self.marked: Vectors = {}
        self.created: list[DataFileMeta] = []

    def write(
        self, files: DataFileStore, rows: Iterable[pa.RecordBatch], kind: Kind = "data"
    ) -> list[DataFileMeta]:
        """Write a run of level 0; the caller adds it to what a message will name."""
        new = files.write_run(rows, 0, APPEND_SOURCE, kind)
        self.created.extend(new)
        return new

    def absorb(self, result: CompactionResult, *, created: bool = True) -> None:
        """Add a compaction; what went in and out again between two commits is left out.

        Args:
            created: its files were made by this writer.
        """
        for file in result.before:
            if self.compact_after.pop(file.file_name, None) is None:
                self.compact_before[file.file_name] = file
        taken = {file.file_name for file in result.before}
        if created:
            self.created.extend(file for file in result.after if file.file_name not in taken)
            self.created.extend(result.changelog)
        self.compact_after.update((file.file_name, file) for file in result.after)
        self.compact_changelog.extend(result.changelog)
        self.marked = united(self.marked, result.marked)

    def undo_compactions(self) -> None:
        """Forget what was compacted since the last message."""
        self.compact_before.clear()
        self.compact_after.clear()
        self.compact_changelog.clear()
        self.marked = {}

    def requeue(self, prepared: PreparedMessages, files: DataFileStore | None = None) -> None:
        """Add the rows that were handed over before these.

        Args:
            files: writes them to new files; by default they stay in theirs.

        Raises:
            MissingFileError: some are gone; nothing is requeued.
        """
        new, changelog = prepared.new_files, prepared.changelog_files
        if files is not None:
            new = self._rewritten(files, new)
            changelog = self._rewritten(files, changelog, "changelog")
        self.new_files[:0], self.changelog_files[:0] = new, changelog

    def renew(self, files: DataFileStore, before: int) -> bool:
        """Write again what was written by then, and undo compactions; whether there was any.

        Args:
            before: epoch milliseconds.

        Raises:
            MissingFileError: a file is gone.
        """

        def is_old(file: DataFileMeta) -> bool:
            return file.creation_time is not None and file.creation_time <= before

        if not any(map(is_old, self.to_be_named)):
            return False
        self.undo_compactions()
        new = self._rewritten(files, self.new_files, chosen=is_old)
        changelog = self._rewritten(files, self.changelog_files, "changelog", chosen=is_old)
        self.new_files, self.changelog_files = new, changelog
        return True

    def renumber(self, files: DataFileStore, newest: int) -> None:
        """Write the rows again if their sequence numbers do not follow the newest's."""
        least = min((file.min_sequence_number for file in self.new_files), default=newest + 1)
        if least <= newest:
            self.new_files = self._rewritten(files, self.new_files, shift=newest + 1 - least)

    @property
    def to_be_named(self) -> list[DataFileMeta]:
        """Files that are there for the next message alone."""
        return [
            *self.new_files,
            *self.changelog_files,
            *self.compact_after.values(),
            *self.compact_changelog,
        ]

    def unreferenced(self) -> list[DataFileMeta]:
        """Return files that no message will name."""
        kept = (*self.to_be_named, *self.compact_before.values())
        names = {file.file_name for file in kept}
        return [file for file in self.created if file.file_name not in names]

    def message(self, schema: TableSchema, partition: bytes, bucket: int) -> CommitMessage:
        return CommitMessage(
            partition=partition,
            bucket=bucket,
            total_buckets=schema.core.bucket,
            new_files=tuple(self.new_files),
            changelog_files=tuple(self.changelog_files),
            compact_before=tuple(self.compact_before.values()),
            compact_after=tuple(self.compact_after.values()),
            compact_changelog_files=tuple(self.compact_changelog),
        )

    def _rewritten(
        self,
        files: DataFileStore,
        old: Iterable[DataFileMeta],
        kind: Kind = "data",
        *,
        chosen: Callable[[DataFileMeta], bool] = lambda _: True,
        shift: int = 0,
    ) -> list[DataFileMeta]:
        """Write the chosen files again with larger sequence numbers; return all files."""
        found: list[DataFileMeta] = []
        for file in old:
            if not chosen(file):
                found.append(file)
                continue
            rows = (shifted(rows, shift) for rows in files.read(file))
            found.extend(self.write(files, rows, kind))
        return found
