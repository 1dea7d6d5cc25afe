"""Carry out compactions: merge runs into new files, and say what changed where asked."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import msgspec

from pkray.clock import now_millis
from pkray.errors import SchemaChangedError
from pkray.format.data_file import COMPACT_SOURCE, DataFileMeta
from pkray.lsm.bucket_files import Clock
from pkray.lsm.compaction.pick import CompactionUnit
from pkray.lsm.compaction.section_merge import CompactionContext, SectionMerge
from pkray.lsm.compaction.under_way import noted
from pkray.lsm.compaction.upper_lookup import UpperLevelLookup
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.freed_memory import raise_trim_threshold, release_freed_memory
from pkray.lsm.keys.sections import Section, sections
from pkray.lsm.levels import Levels, SortedRun, Vectors
from pkray.lsm.merge.merge_function import MergeEngine, without_deletes
from pkray.lsm.merge.sorted_streams import MergeLimits
from pkray.lsm.record_expiry import RecordExpiry
from pkray.lsm.run_writer import RunWriter
from pkray.schema.table_schema import TableSchema


@dataclass
class CompactionResult:
    """The files that a compaction takes out of a bucket, and those it puts in their place.

    Attributes:
        changelog: changelog files that say what changed.
        marked: rows of other files that were replaced.
    """

    before: list[DataFileMeta] = field(default_factory=list)
    after: list[DataFileMeta] = field(default_factory=list)
    changelog: list[DataFileMeta] = field(default_factory=list)
    marked: Vectors = field(default_factory=dict)


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
        limits = MergeLimits.from_options(schema.core, local_directory)
        self._context = CompactionContext(schema, files, engine, lookup, limits)
        self._clock = clock

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
        schema = self._context.schema
        newest = max(file.schema_id for run in unit.runs for file in run.files)
        if newest > schema.id:
            raise SchemaChangedError(
                f"the table's schema is {newest} now, and this compaction began under schema "
                f"{schema.id}: compact again",
                schema_id=schema.id,
                newest=newest,
            )
        raise_trim_threshold()
        with noted(self._context.files, unit):
            result = _Compaction(self._context, unit, levels, self._clock()).run()
        release_freed_memory(sum(run.size for run in unit.runs), schema.core.write_buffer_size // 2)
        return result


class _Compaction:
    """Writes a unit's output, once: which files are rewritten, and which change their level.

    Args:
        levels: the bucket's files.
        now: epoch milliseconds; rows expire by it.
    """

    def __init__(
        self, context: CompactionContext, unit: CompactionUnit, levels: Levels, now: int
    ) -> None:
        self._schema = context.schema
        self._options = context.schema.core
        self._files = context.files
        self._engine = context.engine
        self._unit = unit
        self._vectors = levels.vectors
        self._producer = self._options.changelog_producer
        self._expiry = RecordExpiry.from_schema(context.schema, now)
        self._rows = SectionMerge(context, unit, levels, self._expiry)
        self._result = CompactionResult()
        self._later: RunWriter
        self._written: list[DataFileMeta] = []

    def run(self) -> CompactionResult:
        """Write the unit's output. Nothing stays of it where that fails."""
        with ExitStack() as undo:
            undo.callback(lambda: self._files.delete(self._written))
            self._write_runs()
            undo.pop_all()
        self._result.marked = self._rows.marked
        return self._result

    def _write_runs(self) -> None:
        with self._files.open_run(0, COMPACT_SOURCE) as self._later:
            self._rewrite_or_upgrade_all()
        self._add(self._later.files, self._result.after)

    def _rewrite_or_upgrade_all(self) -> None:
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
            self._add(changelog.files, self._result.changelog)
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
        self._add(data.files, self._result.after)
        self._add(changelog.files, self._result.changelog)

    def _add(self, files: Iterable[DataFileMeta], where: list[DataFileMeta]) -> None:
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
