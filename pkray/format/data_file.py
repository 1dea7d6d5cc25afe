"""Describe data files as manifests do."""

import msgspec

from pkray.arguments.file_names import checked

ADD, DELETE = 0, 1
APPEND_SOURCE, COMPACT_SOURCE = 0, 1


class SimpleStats(msgspec.Struct, frozen=True):
    """Minimum, maximum (BinaryRows with arity prefix) and null count of each column.

    A column of which nothing is known has NULL in both rows and ``None`` as its count.
    """

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...]


class DataFileMeta(msgspec.Struct, frozen=True, kw_only=True):
    """A Parquet file of one bucket: rows sorted by key, keys unique.

    ``min_key`` and ``max_key`` are BinaryRows (arity prefix) of the trimmed primary key.
    """

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time: int | None = None
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    file_source: int | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in self.names:
            checked(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The file's own name, and those of its extra files."""
        return self.file_name, *self.extra_files


class ManifestEntry(msgspec.Struct, frozen=True):
    """One file added to or deleted from a bucket. ``kind`` is ADD (0) or DELETE (1)."""

    kind: int
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta
