"""Carries out a compaction: merges runs into new files, and says what changed where asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from pkray.errors import SchemaChangedError
from pkray.format.data_file import COMPACT_SOURCE, DataFileMeta
from pkray.lsm.changelog_rows import ChangelogRows
from pkray.lsm.compaction import CompactionUnit, level_count
from pkray.lsm.data_files import Clock, DataFileStore, now_millis
from pkray.lsm.key_groups import KeyGroups, concat, take
from pkray.lsm.key_ranges import Section, sections
from pkray.lsm.levels import Levels, SortedRun, Vectors, united
from pkray.lsm.live_rows import LiveRows
from pkray.lsm.merge import MergeEngine, newest_images, without_deletes
from pkray.lsm.merge_read import FileReader, row_order, section_groups
from pkray.lsm.record_expiry import RecordExpiry
from pkray.lsm.sorted_streams import MergeLimits
from pkray.lsm.upper_lookup import UpperLevelLookup
from pkray.row_kind import DELETE
from pkray.schema import KIND

if TYPE_CHECKING:
    from pkray.schema import TableSchema


@dataclass
class CompactionResult:
    """Files taken out, files put in their place, changelog files, and rows replaced elsewhere."""

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
        self._clock = clock
        self._schema = schema
        self._files = files
        self._engine = engine
        self._lookup = lookup
        self._limits = MergeLimits.of(schema.core, local_directory)
        self._producer = schema.core.changelog_producer

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
        task = _Task(self, unit, levels)
        with ExitStack() as undo:
            undo.callback(task.undo)
            task.run()
            undo.pop_all()
        return task.result


class _Task:
    """One compaction under way."""

    def __init__(self, compactor: Compactor, unit: CompactionUnit, levels: Levels) -> None:
        self.result = CompactionResult()
        self._schema = compactor._schema
        self._options = self._schema.core
        self._files = compactor._files
        self._vectors = levels.vectors
        self._reader: FileReader = (
            LiveRows(self._files, self._vectors) if self._vectors else self._files
        )
        self._engine = compactor._engine
        self._lookup = compactor._lookup
        self._producer = compactor._producer
        self._unit = unit
        self._output_level = unit.output_level
        self._top_level = level_count(self._options, levels.runs()) - 1
        self._marks = self._options.deletion_vectors_enabled
        self._drops_deletes = self._marks or unit.output_level >= levels.max_level
        self._above = levels.above(unit.output_level)
        self._order = row_order([*unit.runs, *self._above], self._schema)
        self._limits = compactor._limits
        self._changes = ChangelogRows(self._schema)
        self._expiry = RecordExpiry.of(self._schema, compactor._clock())
        self._written: list[DataFileMeta] = []

    def run(self) -> None:
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
        if file.level == self._output_level and not self._must_purge(file):
            return
        if self._must_rewrite(file):
            self._rewrite([section])
            return
        if self._makes_changelog([section]):
            with self._files.open_run(self._output_level, COMPACT_SOURCE, "changelog") as changelog:
                for _, changes in self._merged(section, with_changes=True, rewrites=False):
                    changelog.write(changes)
            self._keep(changelog.files, self.result.changelog)
        elif self._marks and file.level == 0 and self._above:
            for rows in self._reader.read(file, self._order.key_columns):
                self._mark_older(rows)
        self.result.before.append(file)
        self.result.after.append(msgspec.structs.replace(file, level=self._output_level))

    def _must_purge(self, file: DataFileMeta) -> bool:
        """Whether the file is rewritten for the rows in it that are gone, or have expired."""
        if self._unit.purge and file.file_name in self._vectors:
            return True
        if self._expiry is None or not self._drops_deletes:
            return False
        return self._expiry.may_be_in(file, self._files.schema_of)

    def _must_rewrite(self, file: DataFileMeta) -> bool:
        if self._must_purge(file):
            return True
        if self._marks and file.level == 0 and file.delete_row_count != 0:
            return True
        if self._output_level == self._top_level:
            return file.delete_row_count != 0
        is_final = self._engine.keeps_newest and not self._options.sequence_field
        return self._completes([file.level]) and not is_final

    def _rewrite(self, chosen: Sequence[Section]) -> None:
        levels = [run.level for section in chosen for run in section.runs]
        shows_expiry = self._producer == "lookup" and self._expiry is not None
        with_changes = shows_expiry or self._makes_changelog(chosen) or self._completes(levels)
        with (
            self._files.open_run(self._output_level, COMPACT_SOURCE) as data,
            self._files.open_run(self._output_level, COMPACT_SOURCE, "changelog") as changelog,
        ):
            for section in chosen:
                for rows, changes in self._merged(section, with_changes):
                    data.write(without_deletes(rows) if self._drops_deletes else rows)
                    changelog.write(changes)
        self.result.before.extend(file for section in chosen for file in section.files)
        self._keep(data.files, self.result.after)
        self._keep(changelog.files, self.result.changelog)

    def _keep(self, files: Iterable[DataFileMeta], where: list[DataFileMeta]) -> None:
        where.extend(files)
        self._written.extend(files)

    def _completes(self, levels: Iterable[int]) -> bool:
        """Whether rows of level 0 are merged with all older ones on their way up."""
        is_asked = (
            self._producer == "lookup"
            or self._engine.whole_above_0
            or (self._marks and bool(self._order.sequence_fields))
        )
        return is_asked and 0 in levels

    def _makes_changelog(self, chosen: Iterable[Section]) -> bool:
        if self._producer == "full-compaction":
            return self._output_level == self._top_level
        levels = {run.level for section in chosen for run in section.runs}
        return self._producer == "lookup" and 0 in levels

    def _merged(
        self, section: Section, with_changes: bool, rewrites: bool = True
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Merged rows, deletes included, and changelog rows.

        Args:
            rewrites: with lookup, a key's only row is merged as well, and rows expire; not if
                the rows stay in a file that is not rewritten.
        """
        columns = self._files.row_schema.names
        if len(section.runs) == 1 and not with_changes:
            for file in section.files:
                for rows in self._reader.read(file, columns):
                    if file.level == 0:
                        self._mark_older(rows)
                    yield self._unexpired(rows, file.level), rows.slice(0, 0)
            return
        levels = np.array([run.level for run in section.runs])
        beside = self._above if with_changes else ()
        for groups, source in section_groups(
            section, self._reader, self._order, columns, self._limits, beside=beside
        ):
            if with_changes:
                yield self._merge_with_changes(groups, levels[source], rewrites)
            else:
                is_old = levels[source] > 0
                if self._marks and self._above:
                    self._mark_older(_first_rows(groups, ~_any_in_group(groups, is_old)))
                yield self._merge(groups, levels[source])[0], groups.rows.slice(0, 0)

    def _merge_with_changes(
        self, groups: KeyGroups, level: np.ndarray, rewrites: bool
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Merge, and compare with what was there before.

        That is, for lookup, the rows of levels above 0; for full-compaction the top level's.
        """
        if self._engine.keeps_first:
            return self._first_rows(groups, level)
        by_lookup = self._producer != "full-compaction"
        if by_lookup:
            groups, level = self._with_older_rows(groups, level)
            is_old = level > 0
            groups = newest_images(self._engine, groups, is_old)
            touched = _any_in_group(groups, ~is_old)
        else:
            is_old = level == self._top_level
            touched = (groups.sizes > 1) | _any_in_group(groups, ~is_old)
        always = by_lookup and rewrites
        rows, keys = self._merge(groups, level, always=always, expires=rewrites)
        if self._producer in ("none", "input"):
            return rows, rows.slice(0, 0)
        old_groups, keys_of_old = groups.restrict(is_old)
        before = self._engine.merge(old_groups)
        after = rows
        if rewrites and self._expiry is not None:
            after = _with_deleted(rows, keys, groups)
            touched |= _any_in_group(groups, is_old & self._expired(groups.rows, level))
        return rows, self._changes.between(before, keys_of_old, after, touched)

    def _merge(
        self, groups: KeyGroups, level: np.ndarray, *, always: bool = False, expires: bool = True
    ) -> tuple[pa.RecordBatch, np.ndarray]:
        """A row of each key that has one yet, and the numbers of these keys.

        Args:
            level: of each row of ``groups.rows``.
        """
        groups = newest_images(self._engine, groups, level > 0)
        every = np.arange(len(groups))
        if self._expiry is None or not expires:
            return self._engine.merge(groups, always=always), every
        if not self._engine.keeps_newest:
            groups, keys = groups.restrict(~self._expired(groups.rows, level))
            return self._engine.merge(groups, always=always), keys
        # An expired row goes with what it hides: left out before, older rows would come back.
        rows = self._engine.merge(groups, always=always)
        expired = self._expired(rows, np.full(len(groups), self._output_level))
        return (take(rows, every[~expired]), every[~expired]) if expired.any() else (rows, every)

    def _expired(self, rows: pa.RecordBatch, level: np.ndarray) -> np.ndarray:
        """Rows to leave out; no image of a level that hides older ones which are not here."""
        if self._expiry is None:
            return np.zeros(rows.num_rows, np.bool_)
        expired = self._expiry.expired(rows)
        if self._drops_deletes:
            return expired
        return expired & (level == 0) if not self._engine.keeps_newest else np.zeros_like(expired)

    def _unexpired(self, rows: pa.RecordBatch, level: int) -> pa.RecordBatch:
        """Of rows of one level, which are merged with no others."""
        expired = self._expired(rows, np.full(rows.num_rows, level))
        return rows.filter(pa.array(~expired)) if expired.any() else rows

    def _first_rows(
        self, groups: KeyGroups, level: np.ndarray
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Keys that are above already are left out: readers need not merge levels then."""
        if self._expiry is not None:
            groups, _ = groups.restrict(~self._expired(groups.rows, level))
            if not len(groups):
                return groups.rows.slice(0, 0), groups.rows.slice(0, 0)
        is_old = level > 0
        known = _any_in_group(groups, is_old)
        first = self._engine.merge(groups)
        if self._above and not known.all():
            unknown = np.flatnonzero(~known)
            keys = first.select(list(self._order.key_columns)).take(pa.array(unknown))
            found = self._order.keys(self._lookup.find(keys, self._above))
            above = found.search(self._order.keys(keys))[1] if len(found) else np.zeros(0, bool)
            new = np.ones(len(groups), bool)
            new[unknown[: len(above)][above]] = False
            first, known = first.filter(pa.array(new)), known[new]
        shown = ~known if self._producer == "lookup" else np.zeros(len(known), bool)
        return first, first.filter(pa.array(shown))

    def _with_older_rows(
        self, groups: KeyGroups, level: np.ndarray
    ) -> tuple[KeyGroups, np.ndarray]:
        """Add the rows above the output level of keys that have none here; all rows' levels."""
        missing = ~_any_in_group(groups, level > 0)
        if not self._above or not missing.any():
            return groups, level
        keys = self._keys_of(_first_rows(groups, missing))
        if self._marks:
            found = self._mark(keys, groups.rows.schema.names)
        else:
            found = self._lookup.find(keys, self._above)
        if not found.num_rows:
            return groups, level
        together = concat([found.select(groups.rows.schema.names), groups.rows])
        above = np.full(len(found), self._above[0].level)
        return self._order.group(together), np.concatenate([above, level])

    def _mark_older(self, rows: pa.RecordBatch) -> None:
        """Mark what these keys, of level 0 alone here, have in the levels above."""
        if self._marks and self._above and rows.num_rows:
            self._mark(self._keys_of(rows), ())

    def _mark(self, keys: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """The rows of these keys in the levels above; they are replaced by what is written here."""
        found = self._lookup.locate(keys, self._above, self._vectors, columns)
        self.result.marked = united(self.result.marked, found.vectors())
        return found.rows

    def _keys_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.select(list(self._order.key_columns))


def _first_rows(groups: KeyGroups, chosen: np.ndarray) -> pa.RecordBatch:
    """A row of each of the chosen keys, in key order."""
    return take(groups.rows, groups.order[groups.starts[chosen]])


def _with_deleted(rows: pa.RecordBatch, keys: np.ndarray, groups: KeyGroups) -> pa.RecordBatch:
    """Rows of some of the keys, and a -D for each of the others, in key order."""
    if len(keys) == len(groups):
        return rows
    gone = np.delete(np.arange(len(groups)), keys)
    lost = take(groups.rows, groups.newest()[gone])
    place = lost.schema.get_field_index(KIND)
    kinds = pa.array(np.full(len(gone), DELETE, np.int8))
    lost = lost.set_column(place, lost.schema.field(place), kinds)
    return take(concat([rows, lost]), np.argsort(np.concatenate([keys, gone])))


def _any_in_group(groups: KeyGroups, holds: np.ndarray) -> np.ndarray:
    """For each key, whether it holds for one of its rows."""
    return np.logical_or.reduceat(holds[groups.order], groups.starts)
