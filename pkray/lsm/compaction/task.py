"""One compaction under way: which files are rewritten, and which just change their level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from pkray.format.data_file import COMPACT_SOURCE, DataFileMeta
from pkray.lsm.compaction.pick import CompactionUnit
from pkray.lsm.compaction.result import CompactionResult
from pkray.lsm.compaction.section_merge import SectionMerge
from pkray.lsm.compaction.upper_lookup import UpperLevelLookup
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.freed_memory import release_freed_memory
from pkray.lsm.keys.sections import Section, sections
from pkray.lsm.levels import Levels, SortedRun
from pkray.lsm.merge.merge_function import MergeEngine, without_deletes
from pkray.lsm.merge.sorted_streams import MergeLimits
from pkray.lsm.record_expiry import RecordExpiry
from pkray.lsm.run_writer import RunWriter

if TYPE_CHECKING:
    from pkray.schema.table_schema import TableSchema


class CompactionTask:
    """Writes a unit's output, once.

    Args:
        lookup: finds rows in the levels above.
        levels: the bucket's files.
        now: epoch milliseconds; rows expire by it.
    """

    def __init__(
        self,
        schema: TableSchema,
        files: DataFileStore,
        engine: MergeEngine,
        lookup: UpperLevelLookup,
        limits: MergeLimits,
        unit: CompactionUnit,
        levels: Levels,
        now: int,
    ) -> None:
        self._schema = schema
        self._options = schema.core
        self._files = files
        self._engine = engine
        self._unit = unit
        self._vectors = levels.vectors
        self._producer = schema.core.changelog_producer
        self._expiry = RecordExpiry.from_schema(schema, now)
        self._rows = SectionMerge(schema, files, engine, lookup, limits, unit, levels, self._expiry)
        self._result = CompactionResult()
        self._later: RunWriter
        self._written: list[DataFileMeta] = []

    def run(self) -> CompactionResult:
        with self._files.open_run(0, COMPACT_SOURCE) as self._later:
            self._carry_out()
        self._keep(self._later.files, self._result.after)
        self._result.marked = self._rows.marked
        return self._result

    def _carry_out(self) -> None:
        large = self._options.target_file_size // 10 * 7
        waiting: list[Section] = []
        for section in sections(self._unit.runs, self._schema):
            if len(section.runs) > 1:
                waiting.append(section)
                continue
            for file in section.files:
                alone = Section((SortedRun(section.runs[0].level, (file,)),))
                if file.file_size < large:
                    waiting.append(alone)
                else:
                    self._rewrite_or_upgrade(waiting)
                    waiting = []
                    self._upgrade(alone)
        self._rewrite_or_upgrade(waiting)

    def undo(self) -> None:
        """Delete what was written."""
        self._files.delete(self._written)

    def _rewrite_or_upgrade(self, waiting: Sequence[Section]) -> None:
        if len(waiting) == 1 and len(waiting[0].runs) == 1:
            self._upgrade(waiting[0])
        elif waiting:
            self._rewrite(waiting)

    def _upgrade(self, section: Section) -> None:
        """Change the level of the section's one file."""
        (file,) = section.files
        if file.level == self._unit.output_level and not self._must_purge(file):
            return
        if self._must_rewrite(file):
            self._rewrite([section])
            return
        if self._makes_changelog([section]):
            with self._files.open_run(
                self._unit.output_level, COMPACT_SOURCE, "changelog"
            ) as changelog:
                for some in self._rows.merged(section, with_changes=True, rewrites=False):
                    changelog.write(some.changes)
            self._keep(changelog.files, self._result.changelog)
        elif self._rows.marks and file.level == 0 and self._rows.above:
            for rows in self._rows.reader.read(file, self._rows.order.key_columns):
                self._rows.mark_older(rows)
        self._result.before.append(file)
        self._result.after.append(msgspec.structs.replace(file, level=self._unit.output_level))

    def _must_purge(self, file: DataFileMeta) -> bool:
        """Whether the file is rewritten for the rows in it that are gone, or have expired."""
        if self._unit.purge and file.file_name in self._vectors:
            return True
        if self._expiry is None or not self._rows.drops_deletes:
            return False
        return self._expiry.may_be_in(file, self._files.schema_of)

    def _must_rewrite(self, file: DataFileMeta) -> bool:
        if self._must_purge(file):
            return True
        if self._rows.marks and file.level == 0 and file.delete_row_count != 0:
            return True
        if self._unit.output_level == self._rows.top_level:
            return file.delete_row_count != 0
        is_final = self._engine.keeps_newest and not self._options.sequence_field
        return self._completes([file.level]) and not is_final

    def _rewrite(self, chosen: Sequence[Section]) -> None:
        levels = [run.level for section in chosen for run in section.runs]
        shows_expiry = self._producer == "lookup" and self._expiry is not None
        with_changes = shows_expiry or self._makes_changelog(chosen) or self._completes(levels)
        with (
            self._files.open_run(self._unit.output_level, COMPACT_SOURCE) as data,
            self._files.open_run(self._unit.output_level, COMPACT_SOURCE, "changelog") as changelog,
        ):
            for section in chosen:
                for rows, changes, later in self._rows.merged(section, with_changes):
                    data.write(without_deletes(rows) if self._rows.drops_deletes else rows)
                    changelog.write(changes)
                    self._later.write(later)
                    release_freed_memory(rows.nbytes, self._options.write_buffer_size)
        self._result.before.extend(file for section in chosen for file in section.files)
        self._keep(data.files, self._result.after)
        self._keep(changelog.files, self._result.changelog)

    def _keep(self, files: Iterable[DataFileMeta], where: list[DataFileMeta]) -> None:
        where.extend(files)
        self._written.extend(files)

    def _completes(self, levels: Iterable[int]) -> bool:
        """Whether rows of level 0 are merged with all older ones on their way up."""
        is_asked = (
            self._producer == "lookup"
            or self._engine.whole_above_0
            or (self._rows.marks and bool(self._rows.order.sequence_fields))
        )
        return is_asked and 0 in levels

    def _makes_changelog(self, chosen: Iterable[Section]) -> bool:
        if self._producer == "full-compaction":
            return self._unit.output_level == self._rows.top_level
        levels = {run.level for section in chosen for run in section.runs}
        return self._producer == "lookup" and 0 in levels
