"""Carry to a commit what one bucket asks it to make visible."""

import hashlib
from collections.abc import Iterable

import msgspec

from pkray.format.data_file import DataFileMeta
from pkray.format.index_file import DELETION_VECTORS, IndexFileMeta


def files_digest(files: Iterable[tuple[int, str]]) -> bytes:
    """Hash names of files, so that sets of files are told apart.

    Args:
        files: their levels and names.
    """
    names = "\n".join(f"{level} {name}" for level, name in sorted(files))
    return hashlib.blake2b(names.encode(), digest_size=16).digest()


class CommitMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one writer on one bucket since its last commit.

    ``new_files`` and ``changelog_files`` go into the APPEND snapshot; ``compact_before``,
    ``compact_after`` and ``compact_changelog_files`` into the COMPACT snapshot after it.

    Args:
        index_files: new index files; each replaces the bucket's earlier ones of its type. Deletion
            vectors go with the COMPACT snapshot, others with the APPEND snapshot.
        removed_index_types: types of which the bucket has no index file any more.
        index_base: names of the bucket's index files, of the types changed, that the change starts
            from; a commit that finds others there is a conflict.
        upper_files: of the files above level 0 that the compaction reckons with (`files_digest`);
            a commit that finds others there is a conflict. None where it need not reckon with all.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()
    compact_changelog_files: tuple[DataFileMeta, ...] = ()
    index_files: tuple[IndexFileMeta, ...] = ()
    removed_index_types: tuple[str, ...] = ()
    index_base: tuple[str, ...] = ()
    upper_files: bytes | None = None

    @property
    def index_types(self) -> set[str]:
        """Types of the index files that it changes."""
        return {file.index_type for file in self.index_files} | set(self.removed_index_types)

    @property
    def has_compact(self) -> bool:
        return bool(
            self.compact_before
            or self.compact_after
            or self.compact_changelog_files
            or DELETION_VECTORS in self.index_types
        )
