"""Arrange the live files of a bucket as sorted runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from pkray.format.data_file import DataFileMeta
from pkray.format.deletion_vector import DeletionVector

Vectors = Mapping[str, DeletionVector]
"""Deletion vectors by data file."""


@dataclass(frozen=True)
class SortedRun:
    """Files that do not overlap, in any order: one file of level 0, or all of a level above."""

    level: int
    files: tuple[DataFileMeta, ...]

    @cached_property
    def size(self) -> int:
        return sum(file.file_size for file in self.files)

    @cached_property
    def row_count(self) -> int:
        return sum(file.row_count for file in self.files)

    @cached_property
    def min_sequence(self) -> int:
        return min(file.min_sequence_number for file in self.files)

    @cached_property
    def max_sequence(self) -> int:
        return max(file.max_sequence_number for file in self.files)

    @property
    def may_have_deletes(self) -> bool:
        """Whether it may hold -U or -D: False only if its files say that they hold none."""
        return any(file.delete_row_count != 0 for file in self.files)


class Levels:
    """An immutable set of files; ``apply`` makes the next one.

    Level 0 holds overlapping files, the newest first: by largest, then smallest sequence number,
    creation time and name. Each level above is one run, newer than the levels above it.

    Args:
        vectors: rows of the files that are deleted.
        vector_files: names of the index files of the snapshot that the levels began with.
    """

    def __init__(
        self,
        files: Iterable[DataFileMeta] = (),
        vectors: Vectors | None = None,
        vector_files: tuple[str, ...] = (),
    ) -> None:
        self.files: tuple[DataFileMeta, ...] = tuple(files)
        self.vectors: Vectors = vectors or {}
        self.vector_files = vector_files

    def apply(
        self,
        removed: Iterable[DataFileMeta],
        added: Iterable[DataFileMeta],
        marked: Vectors | None = None,
    ) -> Levels:
        """Return levels without ``removed`` (by name and level; those not here are ignored), with
        ``added``.

        Args:
            marked: rows that are deleted, in addition to those that were.
        """
        live = {_identity(file): file for file in self.files}
        for file in removed:
            live.pop(_identity(file), None)
        live.update((_identity(file), file) for file in added)
        vectors = united(self.vectors, marked or {})
        if vectors:
            names = {name for name, _ in live}
            vectors = {name: vector for name, vector in vectors.items() if name in names}
        return Levels(live.values(), vectors, self.vector_files)

    def with_vectors(self, vectors: Vectors, vector_files: tuple[str, ...]) -> Levels:
        """Return the same files with other vectors."""
        return Levels(self.files, vectors, vector_files)

    def compacted(self) -> Levels:
        """Return the levels without level 0."""
        return Levels((f for f in self.files if f.level > 0), self.vectors, self.vector_files)

    def runs(self) -> tuple[SortedRun, ...]:
        """Return the sorted runs, newest first."""
        return self._runs

    @cached_property
    def _runs(self) -> tuple[SortedRun, ...]:
        by_level: dict[int, list[DataFileMeta]] = {}
        for file in self.files:
            by_level.setdefault(file.level, []).append(file)
        newest_first = sorted(by_level.pop(0, []), key=_recency, reverse=True)
        fresh = [SortedRun(0, (file,)) for file in newest_first]
        return (*fresh, *(SortedRun(level, tuple(by_level[level])) for level in sorted(by_level)))

    @cached_property
    def max_sequence(self) -> int:
        """The largest sequence number of all rows; -1 without files."""
        return max((file.max_sequence_number for file in self.files), default=-1)

    @cached_property
    def file_names(self) -> frozenset[str]:
        return frozenset(file.file_name for file in self.files)

    @cached_property
    def max_level(self) -> int:
        """The highest level with files; -1 without files."""
        return max((file.level for file in self.files), default=-1)

    @cached_property
    def row_count(self) -> int:
        """Rows in the files, before merging."""
        return sum(file.row_count for file in self.files)

    def above(self, level: int) -> tuple[SortedRun, ...]:
        """Return the runs of the levels above ``level``, newest first."""
        return tuple(run for run in self._runs if run.level > level)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Levels):
            return NotImplemented
        same_files = set(map(_identity, self.files)) == set(map(_identity, other.files))
        return same_files and self.vectors == other.vectors

    def __hash__(self) -> int:
        return hash(frozenset(map(_identity, self.files)))

    def __repr__(self) -> str:
        runs = ", ".join(f"L{run.level}:{len(run.files)}x{run.row_count}" for run in self._runs)
        return f"Levels({runs})"


def united(one: Vectors, other: Vectors) -> Vectors:
    """Unite the rows that two sets of vectors mark."""
    if not other:
        return one
    both = {name: one[name] | vector for name, vector in other.items() if name in one}
    return {**one, **other, **both}


def _identity(file: DataFileMeta) -> tuple[str, int]:
    return file.file_name, file.level


def _recency(file: DataFileMeta) -> tuple[int, int, int, str]:
    return (
        file.max_sequence_number,
        file.min_sequence_number,
        file.creation_time or 0,
        file.file_name,
    )
