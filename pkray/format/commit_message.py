"""What one bucket asks a commit to make visible."""

from __future__ import annotations

import msgspec

from pkray.format.data_file import DataFileMeta


class CommitMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one writer on one bucket since its last commit.

    ``new_files`` and ``changelog_files`` go into the APPEND snapshot; ``compact_before``,
    ``compact_after`` and ``compact_changelog_files`` into the COMPACT snapshot after it.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()
    compact_changelog_files: tuple[DataFileMeta, ...] = ()

    @property
    def has_append(self) -> bool:
        return bool(self.new_files or self.changelog_files)

    @property
    def has_compact(self) -> bool:
        return bool(self.compact_before or self.compact_after or self.compact_changelog_files)
