"""Carries out a compaction: merges runs into new files, and says what changed where asked."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from pkray.clock import now_millis
from pkray.errors import SchemaChangedError
from pkray.lsm.bucket_files import Clock
from pkray.lsm.compaction.pick import CompactionUnit
from pkray.lsm.compaction.result import CompactionResult
from pkray.lsm.compaction.task import CompactionTask
from pkray.lsm.compaction.upper_lookup import UpperLevelLookup
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.freed_memory import raise_trim_threshold, release_freed_memory
from pkray.lsm.levels import Levels
from pkray.lsm.merge.merge_function import MergeEngine
from pkray.lsm.merge.sorted_streams import MergeLimits

if TYPE_CHECKING:
    from pkray.schema.table_schema import TableSchema


class Compactor:
    """Compacts one bucket.

    Args:
        lookup: finds rows in the levels above; for the lookup changelog and deletion vectors.
        clock: epoch milliseconds.
        local_directory: on the local disk, for rows set aside where many runs are merged.
    """

    def __init__(
        self,
        schema: TableSchema,
        files: DataFileStore,
        engine: MergeEngine,
        lookup: UpperLevelLookup,
        clock: Clock = now_millis,
        local_directory: str | None = None,
    ) -> None:
        self._clock = clock
        self._schema = schema
        self._files = files
        self._engine = engine
        self._lookup = lookup
        self._limits = MergeLimits.from_options(schema.core, local_directory)

    def run(self, unit: CompactionUnit, levels: Levels) -> CompactionResult:
        """Write the unit's output; nothing is deleted.

        A large file that overlaps with no other is not rewritten, it just changes its level.
        Deletes are dropped where no older row is left below the output. With deletion vectors
        none is: older rows in the files above the output are marked.

        Expired rows are left out where no older row can come back for it; a changelog that is
        made says so.

        Raises:
            SchemaChangedError: files have a newer schema: rewriting them would lose its columns.
        """
        newest = max(file.schema_id for run in unit.runs for file in run.files)
        if newest > self._schema.id:
            raise SchemaChangedError(
                f"the table's schema is {newest} now, and this compaction began under schema "
                f"{self._schema.id}: compact again",
                schema_id=self._schema.id,
                newest=newest,
            )
        raise_trim_threshold()
        task = CompactionTask(
            self._schema,
            self._files,
            self._engine,
            self._lookup,
            self._limits,
            unit,
            levels,
            self._clock(),
        )
        with ExitStack() as undo:
            undo.callback(task.undo)
            result = task.run()
            undo.pop_all()
        del task
        release_freed_memory(
            sum(run.size for run in unit.runs), self._schema.core.write_buffer_size // 2
        )
        return result
