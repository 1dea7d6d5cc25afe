"""What a bucket writer has done and not handed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pkray.format.commit_message import CommitMessage
from pkray.format.data_file import DataFileMeta
from pkray.lsm.compaction_result import CompactionResult
from pkray.lsm.levels import Vectors, united

if TYPE_CHECKING:
    from pkray.schema import TableSchema


class PendingWork:
    """Files made since the last message.

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
        self.compact_before.clear()
        self.compact_after.clear()
        self.compact_changelog.clear()
        self.marked = {}

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
        """Files that no message will name."""
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
