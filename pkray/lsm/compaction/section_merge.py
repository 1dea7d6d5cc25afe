"""Merge the rows of a compaction, and make their changelog where asked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pkray.lsm.compaction.changelog_rows import ChangelogRows
from pkray.lsm.compaction.pick import CompactionUnit, level_count
from pkray.lsm.compaction.upper_lookup import UpperLevelLookup
from pkray.lsm.data_files import DataFileStore
from pkray.lsm.keys.key_groups import KeyGroups, concat, take
from pkray.lsm.keys.sections import Section
from pkray.lsm.levels import Levels, Vectors, united
from pkray.lsm.merge.merge_function import MergeEngine, cut_at_deletes, newest_images
from pkray.lsm.merge.merge_read import FileReader, LiveRows, row_order, section_groups
from pkray.lsm.merge.sorted_streams import MergeLimits
from pkray.lsm.record_expiry import RecordExpiry
from pkray.schema.row_kind import DELETE
from pkray.schema.table_schema import KIND, TableSchema


@dataclass(frozen=True)
class CompactionContext:
    """The settings that all compactions of one bucket share.

    Args:
        files: of the bucket, under ``schema``.
        lookup: finds rows in the levels above a compaction's output.
        limits: of the rows that are held while runs are merged.
    """

    schema: TableSchema
    files: DataFileStore
    engine: MergeEngine
    lookup: UpperLevelLookup
    limits: MergeLimits


class MergedRows(NamedTuple):
    """The merged rows of some keys.

    Args:
        rows: one a key, deletes included.
        changes: of the changelog.
        later: what comes after a delete among the rows, and is to stay apart from it.
    """

    rows: pa.RecordBatch
    changes: pa.RecordBatch
    later: pa.RecordBatch


class SectionMerge:
    """Merges the rows that one compaction writes, section by section.

    Args:
        levels: the bucket's files.
        expiry: which rows expire, if any do.

    Attributes:
        marked: rows above the output level that are replaced by what was merged.
        top_level: of the bucket.
        drops_deletes: no older row is left that a delete would hide.
    """

    def __init__(
        self,
        context: CompactionContext,
        unit: CompactionUnit,
        levels: Levels,
        expiry: RecordExpiry | None,
    ) -> None:
        schema, files, engine = context.schema, context.files, context.engine
        self.marked: Vectors = {}
        self.marks = schema.core.deletion_vectors_enabled
        self.top_level = level_count(schema.core, levels.runs()) - 1
        self.drops_deletes = self.marks or unit.output_level >= levels.max_level
        self.above = levels.above(unit.output_level)
        self.order = row_order([*unit.runs, *self.above], schema)
        self._vectors = levels.vectors
        self.reader: FileReader = LiveRows(files, self._vectors) if self._vectors else files
        self._columns = files.row_schema.names
        self._engine = engine
        self._lookup = context.lookup
        self._limits = context.limits
        self._producer = schema.core.changelog_producer
        self._output_level = unit.output_level
        self._changes = ChangelogRows(schema)
        self._expiry = expiry
        self._cuts = engine.deletes_reset and not (self.drops_deletes or engine.whole_above_0)
        self._only_newest_counts = (
            self._producer == "lookup"
            and engine.keeps_newest
            and self.order.columns == self.order.key_columns
            and expiry is None
            and not self.marks
        )

    def merged(
        self, section: Section, with_changes: bool, rewrites: bool = True
    ) -> Iterator[MergedRows]:
        """Merge the rows of a section, and make its changelog rows.

        Args:
            rewrites: with lookup, a key's only row is merged as well, and rows expire; not if
                the rows stay in a file that is not rewritten.
        """
        if len(section.runs) == 1 and not with_changes:
            for file in section.files:
                for rows in self.reader.read(file, self._columns):
                    if file.level == 0:
                        self.mark_older(rows)
                    yield MergedRows(self._unexpired(rows, file.level), *[rows.slice(0, 0)] * 2)
            return
        levels = np.array([run.level for run in section.runs])
        levels_matter = bool(self.marks and self.above) or self._engine.whole_above_0
        levels_matter |= self._expiry is not None
        extra = self.above if with_changes else ()
        for groups, source in section_groups(
            section, self.reader, self.order, self._columns, self._limits, extra=extra
        ):
            none = groups.rows.slice(0, 0)
            if with_changes:
                yield MergedRows(*self._merge_with_changes(groups, levels[source], rewrites), none)
                continue
            if levels_matter and self.marks and self.above:
                fresh = ~_any_in_group(groups, levels[source] > 0)
                self.mark_older(_first_rows(groups, fresh, self.order.key_columns))
            merged = [
                self._merge(part, levels[source])[0] if levels_matter else self._engine.merge(part)
                for part in (cut_at_deletes(groups) if self._cuts else [groups])
            ]
            yield MergedRows(merged[0], none, merged[1] if len(merged) > 1 else none)

    def _merge_with_changes(
        self, groups: KeyGroups, level: np.ndarray, rewrites: bool
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Merge, and compare with what was there before.

        That is, for lookup, the rows of levels above 0; for full-compaction the top level's.
        """
        if self._engine.keeps_first:
            return self._first_rows(groups, level)
        if self._only_newest_counts:
            return self._newest_with_changes(groups, level)
        by_lookup = self._producer != "full-compaction"
        if by_lookup:
            groups, level = self._with_older_rows(groups, level)
            is_old = level > 0
            groups = newest_images(self._engine, groups, is_old)
            touched = _any_in_group(groups, ~is_old)
        else:
            is_old = level == self.top_level
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
        return rows, self._changes.between([before], keys_of_old, after, touched)

    def _newest_with_changes(
        self, groups: KeyGroups, level: np.ndarray
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Merge as `_merge_with_changes`, where older rows are needed to compare with alone."""
        is_old = level > 0
        rows = self._engine.merge(groups)
        known = _any_in_group(groups, is_old)
        before: list[pa.RecordBatch] = []
        keys_of_before = [np.empty(0, np.intp)]
        if known.any():
            old_groups, keys_of_old = groups.restrict(is_old)
            before.append(self._engine.merge(old_groups))
            keys_of_before.append(keys_of_old)
        if self.above and not known.all():
            unknown = np.flatnonzero(~known)
            positions, found = self._lookup.newest(take(self._keys_of(rows), unknown), self.above)
            before += [some.select(rows.schema.names) for some in found]
            keys_of_before.append(unknown[positions])
        touched = _any_in_group(groups, ~is_old)
        return rows, self._changes.between(before, np.concatenate(keys_of_before), rows, touched)

    def _merge(
        self, groups: KeyGroups, level: np.ndarray, *, always: bool = False, expires: bool = True
    ) -> tuple[pa.RecordBatch, np.ndarray]:
        """Merge the rows of each key; return the rows, and the numbers of the keys that have one.

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
        """Flag the rows to leave out; no merged row that hides older ones which are not here."""
        if self._expiry is None:
            return np.zeros(rows.num_rows, np.bool_)
        expired = self._expiry.expired(rows)
        if self.drops_deletes:
            return expired
        return expired & (level == 0) if not self._engine.keeps_newest else np.zeros_like(expired)

    def _unexpired(self, rows: pa.RecordBatch, level: int) -> pa.RecordBatch:
        """Leave expired rows out of those of one level, which are merged with no others."""
        expired = self._expired(rows, np.full(rows.num_rows, level))
        return rows.filter(pa.array(~expired)) if expired.any() else rows

    def _first_rows(
        self, groups: KeyGroups, level: np.ndarray
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Merge, and leave out keys that are above already: readers need not merge levels then."""
        if self._expiry is not None:
            groups, _ = groups.restrict(~self._expired(groups.rows, level))
            if not len(groups):
                return groups.rows.slice(0, 0), groups.rows.slice(0, 0)
        is_old = level > 0
        known = _any_in_group(groups, is_old)
        first = self._engine.merge(groups)
        if self.above and not known.all():
            unknown = np.flatnonzero(~known)
            keys = first.select(list(self.order.key_columns)).take(pa.array(unknown))
            found = self.order.keys(self._lookup.find(keys, self.above))
            above = found.search(self.order.keys(keys))[1] if len(found) else np.zeros(0, bool)
            new = np.ones(len(groups), bool)
            new[unknown[: len(above)][above]] = False
            if not new.all():
                first, known = first.filter(pa.array(new)), known[new]
        if self._producer != "lookup":
            return first, first.slice(0, 0)
        return first, first.filter(pa.array(~known)) if known.any() else first

    def _with_older_rows(
        self, groups: KeyGroups, level: np.ndarray
    ) -> tuple[KeyGroups, np.ndarray]:
        """Add the rows above the output level of keys that have none here; all rows' levels."""
        missing = ~_any_in_group(groups, level > 0)
        if not self.above or not missing.any():
            return groups, level
        keys = _first_rows(groups, missing, self.order.key_columns)
        if self.marks:
            found = self._mark(keys, groups.rows.schema.names)
        else:
            found = self._lookup.find(keys, self.above)
        if not found.num_rows:
            return groups, level
        together = concat([found.select(groups.rows.schema.names), groups.rows])
        above = np.full(len(found), self.above[0].level)
        return self.order.group(together), np.concatenate([above, level])

    def mark_older(self, rows: pa.RecordBatch) -> None:
        """Mark what these keys, of level 0 alone here, have in the levels above."""
        if self.marks and self.above and rows.num_rows:
            self._mark(self._keys_of(rows), ())

    def _mark(self, keys: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """Find the rows of these keys in the levels above, and mark them as replaced."""
        found = self._lookup.locate(keys, self.above, self._vectors, columns)
        self.marked = united(self.marked, found.vectors())
        return found.rows

    def _keys_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.select(list(self.order.key_columns))


def _first_rows(groups: KeyGroups, chosen: np.ndarray, columns: Sequence[str]) -> pa.RecordBatch:
    """Return the columns of a row of each of the chosen keys, in key order."""
    return take(groups.rows.select(list(columns)), groups.order[groups.starts[chosen]])


def _with_deleted(rows: pa.RecordBatch, keys: np.ndarray, groups: KeyGroups) -> pa.RecordBatch:
    """Return rows of some of the keys, and a -D for each of the others, in key order."""
    if len(keys) == len(groups):
        return rows
    gone = np.delete(np.arange(len(groups)), keys)
    lost = groups.take(groups.newest()[gone])
    place = lost.schema.get_field_index(KIND)
    kinds = pa.array(np.full(len(gone), DELETE, np.int8))
    lost = lost.set_column(place, lost.schema.field(place), kinds)
    return take(concat([rows, lost]), np.argsort(np.concatenate([keys, gone])))


def _any_in_group(groups: KeyGroups, holds: np.ndarray) -> np.ndarray:
    """Flag each key for one of whose rows ``holds`` is true."""
    if holds.all() or not holds.any():  # rows of one level
        return np.full(len(groups), bool(holds.any()))
    return np.logical_or.reduceat(holds[groups.order], groups.starts)
