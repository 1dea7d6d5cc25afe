"""Name the files of one bucket, and say how they are written."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from pkray.clock import now_millis
from pkray.format import paths
from pkray.format.data_file import DataFileMeta
from pkray.format.partition import PartitionSpec
from pkray.lsm.compaction.flushed_rows_cache import FlushedRowsCache
from pkray.options import TableOptions
from pkray.schema.table_schema import TableSchema
from pkray.storage.object_store import ObjectStore

Clock = Callable[[], int]
"""Epoch milliseconds."""


class BucketFiles:
    """Names, describes and deletes the files of one bucket.

    Args:
        store: the table's root.
        partition: as manifests hold it.
        clock: for creation times.
        flushed_rows: keeps rows of level 0 for those that read them soon.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: TableSchema,
        partition: bytes,
        bucket: int,
        clock: Clock = now_millis,
        flushed_rows: FlushedRowsCache | None = None,
    ) -> None:
        self.store = store
        self.schema = schema
        self.partition = partition
        self.bucket = bucket
        self.clock = clock
        self.names = paths.FileNames(
            data_prefix=schema.core.data_file_prefix,
            changelog_prefix=schema.core.changelog_file_prefix,
        )
        self._partition_path = PartitionSpec(schema).path(partition)
        self._flushed_rows = flushed_rows

    def path(self, file_name: str) -> str:
        """Return the path of a file of this bucket, relative to the table's root."""
        return paths.data_file(self._partition_path, self.bucket, file_name)

    def options_for(self, level: int, prefix: str) -> TableOptions:
        """Return the options that a file of this level is written with: its codec and its
        statistics.

        ``file.compression.per.level`` and ``changelog-file.compression`` say which. Where neither
        they nor ``file.compression`` do, data files of level 0 and changelog files have none: most
        are compacted, or read and expired, soon, and a codec costs several times what encoding
        does, and as much again when they are read. Changelogs that are kept longer than snapshots
        have one.
        """
        options = self.schema.core
        if prefix == "changelog":
            is_short_lived = not options.keeps_changelogs_longer
            codec = options.changelog_file_compression
            mode = options.changelog_file_stats_mode or options.metadata_stats_mode
            options = replace(options, metadata_stats_mode=mode)
        else:
            is_short_lived = level == 0 and not options.write_only
            codec = dict(options.file_compression_per_level).get(level)
        if codec is None and is_short_lived and "file.compression" not in self.schema.options:
            codec = "none"
        return options if codec is None else replace(options, file_compression=codec)

    def delete(self, files: Iterable[DataFileMeta]) -> None:
        """Delete files that were never handed over to a commit."""
        files = list(files)
        names = [file.file_name for file in files]
        if self._flushed_rows:
            self._flushed_rows.drop(names)
        if names:
            self.store.delete([self.path(name) for file in files for name in file.names])
