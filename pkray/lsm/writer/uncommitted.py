"""Show what a writer holds of a bucket that is not committed."""

from dataclasses import dataclass

import pyarrow as pa

from pkray.format.data_file import DataFileMeta
from pkray.lsm.keys.key_prefixes import KeyPrefixes
from pkray.lsm.levels import Levels
from pkray.lsm.merge.merge_function import MergeEngine
from pkray.lsm.writer.memtable import Memtable


@dataclass(frozen=True)
class Uncommitted:
    """Shows a writer's rows at one moment to concurrent readers.

    Args:
        schema_id: the schema they are held under.
        files: of level 0.
        memory: newer rows; they stay here when they are flushed.
        first_sequence: of the oldest row in memory.
    """

    schema_id: int
    engine: MergeEngine
    files: tuple[DataFileMeta, ...]
    memory: Memtable
    first_sequence: int

    def is_in(self, levels: Levels) -> bool:
        """Whether the files are committed, and with them all of it."""
        return bool({file.file_name for file in self.files} & levels.file_names)

    def on(self, levels: Levels) -> Levels:
        """Return committed files with these on top."""
        return levels.apply((), self.files) if self.files else levels

    def follows(self, levels: Levels) -> bool:
        """Whether the files are newer than these committed ones."""
        first = min((file.min_sequence_number for file in self.files), default=None)
        return first is None or first > levels.max_sequence

    def lookup_memory(self, keys: pa.RecordBatch, levels: Levels) -> pa.RecordBatch:
        """Find the merged key-value rows of keys in memory, deletes included, in key order.

        Args:
            keys: the key columns, distinct.
            levels: all files, which the rows are newer than (but for user sequence fields).
        """
        return self.memory.lookup(keys, self.engine, self._first_after(levels))

    def lookup_memory_prefixes(self, prefixes: KeyPrefixes, levels: Levels) -> pa.RecordBatch:
        """Find as `lookup_memory` does, all keys that begin with the prefixes."""
        return self.memory.lookup_prefixes(prefixes, self.engine, self._first_after(levels))

    def _first_after(self, levels: Levels) -> int:
        return max(self.first_sequence, levels.max_sequence + 1)
